/** Backpressure: a pod that runs as much as it may leaves threads to its peers, and what nobody has room for waits and can be seen. */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { Fleet } from '../support/fleet.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const env = { MAX_RUNS: '1' };
const thread = (threadId: string) => ({ resourceId: 'user', threadId });
let fleet: Fleet;

beforeEach(async () => {
  fleet = await Fleet.start();
});
afterEach(() => fleet.stop());

async function gauge(pod: RuntimeProcess, name: string): Promise<number | undefined> {
  const text = await fetch(`${pod.metricsUrl}/metrics`).then(response => response.text());
  const value = new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1];
  return value === undefined ? undefined : Number(value);
}

test('a full pod accepts a signal and leaves its thread to a peer with room', async () => {
  const [a, b] = [await fleet.pod('a', env), await fleet.pod('b', env)];
  await fleet.send(a, thread('busy'), 'sleep 60000');
  await fleet.hasRun('sleep 60000');
  const answer = await fleet.send(a, thread('other'), 'sleep 60001');
  // It woke a run, but not here and not yet: which is not known.
  expect(answer).toMatchObject({ status: 200, accepted: true, action: 'wake' });
  expect(answer.runId).toBeUndefined();
  await fleet.hasRun('sleep 60001');
  expect(await fleet.owner(thread('other'))).toMatch(/^b\./);
  expect(b.exitCode).toBeUndefined();
});

test('what no pod has room for waits, is counted with its age, and runs as soon as there is room', async () => {
  const [a, b] = [await fleet.pod('a', env), await fleet.pod('b', env)];
  const running = await Promise.all([fleet.send(a, thread('one'), 'sleep 60000'), fleet.send(b, thread('two'), 'sleep 60001')]);
  await fleet.hasRun('sleep 60000', 'sleep 60001');
  await fleet.send(a, thread('three'), 'third');
  await fleet.send(b, thread('four'), 'fourth');
  for (const pod of [a, b]) {
    await until('it is counted', async () => (await gauge(pod, 'signals_inbox_waiting')) === 2);
    await until('it gets older', async () => ((await gauge(pod, 'signals_inbox_oldest_age_seconds')) ?? 0) > 0.3);
  }
  expect(await fleet.ran()).toEqual(expect.not.arrayContaining(['third', 'fourth']));
  await fleet.post(b, 'threads/abort', { ...thread('one'), expectedRunId: running[0]?.runId });
  await fleet.hasRun('third', 'fourth');
  await until('nothing waits', async () => (await gauge(a, 'signals_inbox_waiting')) === 0);
});
