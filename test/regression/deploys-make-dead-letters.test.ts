/**
 * A run that outlasts the drain is cut short by each deploy. Each counted as a delivery that nobody settled, so that some deploys
 * in a row made a dead letter of a signal that had done no harm.
 */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { RedisKeys } from '../../src/redis/keys.ts';
import { Fleet } from '../support/fleet.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user', threadId: 'thread' };
const env = { MAX_DELIVERY_ATTEMPTS: '2', MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: '50' };
let fleet: Fleet;

beforeEach(async () => {
  fleet = await Fleet.start();
});
afterEach(() => fleet.stop());

test('a signal whose run is cut short by one deploy after the other is run again each time, and given up by none', async () => {
  let pod = await fleet.pod('pod-0', env);
  await fleet.send(pod, thread, 'sleep 600000');
  const attempts = async () => (await fleet.records()).flatMap(({ event, attempt }) => (event === 'signal' ? [attempt] : []));
  for (let deploy = 1; deploy <= 4; deploy++) {
    await until('it runs', async () => (await attempts()).length === deploy);
    const next = await fleet.pod(`pod-${deploy}`, env);
    pod.kill('SIGTERM');
    expect(await pod.exited()).toBe(0);
    pod = next;
  }
  await until('it runs again', async () => (await attempts()).length === 5);
  expect(await attempts()).toEqual([1, 2, 3, 4, 5]);
  expect(await fleet.client.exists(new RedisKeys().thread(thread).dead)).toBe(0);
});
