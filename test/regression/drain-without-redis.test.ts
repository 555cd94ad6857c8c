/** A pod that is told to stop while its Redis is away: it must be gone within its budget, whatever it can't say any more (case 36). */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { lastStepsMs } from '../../src/settings/stop-limits.ts';
import { Fleet } from '../support/fleet.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user', threadId: 'thread' };
const drainTimeoutMs = 1000;
let fleet: Fleet;

beforeEach(async () => {
  fleet = await Fleet.start();
});
afterEach(() => fleet.stop());

test.each([
  ['gone', 'idle'],
  ['gone', 'at work'],
  ['silent', 'idle'],
  ['silent', 'at work'],
] as const)('with a Redis that is %s, a pod that is %s', async (redis, pod) => {
  const a = await fleet.pod('a', { MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: String(drainTimeoutMs) });
  if (pod === 'at work') {
    await fleet.send(a, thread, 'sleep 60000');
    await fleet.hasRun('sleep 60000');
  }
  if (redis === 'gone') await fleet.redis.kill('SIGKILL');
  else fleet.redis.pause();
  a.kill('SIGTERM');
  await until('the pod has gone', () => a.exitCode !== undefined, drainTimeoutMs + lastStepsMs);
  expect(a.exitCode).toBe(0);
  if (redis === 'silent') fleet.redis.resume();
});
