/** What senders and operators do with waiting and dead signals, over HTTP, on pods that do not own the thread. */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { Fleet } from '../support/fleet.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user', threadId: 'thread' };
const path = '/v1/threads/user/thread';
let fleet: Fleet;

beforeEach(async () => {
  fleet = await Fleet.start();
});
afterEach(() => fleet.stop());

async function get(pod: RuntimeProcess, route: string): Promise<unknown> {
  return await fetch(pod.url + route).then(response => response.json());
}

async function post(pod: RuntimeProcess, route: string, body: object): Promise<unknown> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  return await fetch(pod.url + route, init).then(response => response.json());
}

test('waiting signals are cancelled from any pod; what a run was given stays its own', async () => {
  const [a, b] = [await fleet.pod('a'), await fleet.pod('b')];
  await fleet.post(a, 'signals', { ...thread, signal: { id: 'on', type: 'user', contents: 'sleep 1500' } });
  await fleet.hasRun('sleep 1500');
  const queue = (id: string) => fleet.post(a, 'queue-message', { ...thread, message: { contents: `turn ${id}`, id } });
  await queue('one');
  await queue('two');
  const waiting = async () => ((await get(b, path)) as { waiting: number }).waiting;
  expect(await waiting()).toBe(3);
  expect(await post(b, `${path}/cancel`, { signalIds: ['one', 'on', 'nobody'] })).toEqual({ cancelledSignalIds: ['one'] });
  await fleet.hasRun('turn two');
  await fleet.idle(thread);
  expect(await fleet.ran()).toEqual(['sleep 1500', 'turn two']);
});

test('an abort that clears discards what waits, and only for the run that was meant', async () => {
  const [a, b] = [await fleet.pod('a'), await fleet.pod('b')];
  await fleet.send(a, thread, 'sleep 60000');
  await fleet.hasRun('sleep 60000');
  await fleet.queue(a, thread, 'never');
  const abort = (body: object) => fleet.post(b, 'threads/abort', { ...thread, clearPendingSignals: true, ...body });
  expect(await abort({ expectedRunId: 'another' })).toMatchObject({ aborted: false });
  expect(await get(b, path)).toMatchObject({ waiting: 2 });
  expect(await abort({})).toMatchObject({ aborted: true });
  await fleet.idle(thread);
  await fleet.send(b, thread, 'after');
  await fleet.hasRun('after');
  expect(await fleet.ran()).toEqual(['sleep 60000', 'after']);
});

test('the list of threads says what waits behind each run, and for how long its lease is good', async () => {
  const [a, b] = [await fleet.pod('a'), await fleet.pod('b')];
  const { runId, owner } = await fleet.send(a, thread, 'sleep 60000');
  await fleet.hasRun('sleep 60000');
  for (const text of ['one', 'two']) await fleet.queue(b, thread, text);
  const state = { thread, owner, waiting: 3, leaseRemainingMs: expect.any(Number) as number };
  expect(await get(a, '/v1/threads')).toMatchObject({ owned: [{ ...state, runId, agentId: 'scripted' }], waiting: [state] });
  expect(await get(b, '/v1/threads')).toMatchObject({ owned: [], waiting: [state] });
});

test('a signal finds a run by its id alone, on whichever pod it is', async () => {
  const [a, b] = [await fleet.pod('a'), await fleet.pod('b')];
  const { runId } = await fleet.send(a, thread, 'sleep 700');
  await fleet.hasRun('sleep 700');
  const answer = await fleet.post(b, 'send-message', { runId, message: 'found' });
  expect(answer).toMatchObject({ status: 200, action: 'deliver', runId });
  await fleet.hasRun('found');
  await fleet.idle(thread);
  expect(await fleet.post(b, 'send-message', { runId, message: 'late' })).toMatchObject({
    status: 404,
    error: { code: 'SIG_RUN_UNKNOWN' },
  });
});

test('dead letters are listed and replayed over HTTP', async () => {
  const env = { MAX_DELIVERY_ATTEMPTS: '1' };
  const a = await fleet.pod('a', env);
  await fleet.post(a, 'signals', { ...thread, signal: { id: 'poison', type: 'user', contents: 'exit' } });
  await a.exited();
  const b = await fleet.pod('b', env);
  const letters = async () => ((await get(b, `${path}/dead-letters`)) as { deadLetters: { id: string }[] }).deadLetters;
  await until('it was given up', async () => (await letters()).length === 1);
  expect(await letters()).toMatchObject([{ agentId: 'scripted', attempts: 1, signal: { id: 'poison', contents: 'exit' } }]);
  expect(await get(b, '/v1/dead-letters')).toEqual({ threads: [thread] });

  expect(await post(b, `${path}/dead-letters/replay`, {})).toEqual({ replayed: 1 });
  expect(await b.exited()).toBe(42);
  const c = await fleet.pod('c', env);
  await until('it was given up again', async () =>
    ((await get(c, '/v1/dead-letters')) as { threads: object[] }).threads.length === 1);
  const text = await fetch(`${c.metricsUrl}/metrics`).then(response => response.text());
  expect(text).toMatch(/signals_stream_dead_letters_total(\{[^}]*\})? 1\b/);
});
