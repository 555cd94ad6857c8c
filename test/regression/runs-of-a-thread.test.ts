/** What has happened to runs and their follow-ups elsewhere, and must not happen here. Numbers are those of the cases. */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { threadLeaseKey } from '../../src/contracts/thread.ts';
import { RedisConnector } from '../../src/redis/connection.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { Fleet } from '../support/fleet.ts';
import { reportOn } from '../support/run-history.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user', threadId: 'thread' };
let fleet: Fleet;

beforeEach(async () => {
  fleet = await Fleet.start();
});
afterEach(() => fleet.stop());

test('4: between a run and its queued follow-ups nobody else can get the thread', async () => {
  const pod = await fleet.pod('a');
  const client = new RedisConnector({ url: fleet.redis.url }).open('commands');
  await client.connect();
  const leases = new RedisLeaseProvider(client, new RedisKeys());
  await fleet.send(pod, thread, 'sleep 300');
  for (const text of ['sleep 50', 'sleep 51', 'sleep 52']) await fleet.queue(pod, thread, text);
  const stolenAfter: number[] = [];
  await until('all have run or the thread was taken', async () => {
    const { acquired } = await leases.acquireLease(threadLeaseKey(thread), 'intruder/run', 1000);
    const ran = await fleet.ran();
    if (acquired) stolenAfter.push(ran.length);
    return acquired || ran.length === 4;
  }, 30_000, 5);
  client.disconnect();
  await fleet.hasRun('sleep 300', 'sleep 50', 'sleep 51', 'sleep 52');
  // It may be had when the last one is over, not before.
  expect(stolenAfter.filter(count => count < 4)).toEqual([]);
  expect(reportOn(await fleet.records())).toMatchObject({ overlaps: [], tokenSteps: [], repeated: [] });
});

test('13: a tool call that a drain can not interrupt ends before anybody else owns the thread', async () => {
  const a = await fleet.pod('a', { MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: '300' });
  await fleet.pod('b'); // before the run: on a busy machine its start takes longer than the tool
  await fleet.send(a, thread, 'tool 2500');
  await fleet.hasRun('tool 2500');
  a.kill('SIGTERM');
  expect(await a.exited()).toBe(0);
  await until('b ran it again', async () => (await fleet.ran()).length === 2);
  const [first, , end, second] = await fleet.records();
  expect([first?.event, end?.event, second?.event]).toEqual(['start', 'end', 'start']);
  expect(second?.attempt).toBe(2);
  expect(second?.token).toBeGreaterThan(first?.token ?? Infinity);
});

test('14: a signal to a pod that saw another pod run the thread starts exactly one run', async () => {
  const [a, b] = [await fleet.pod('a'), await fleet.pod('b')];
  await fleet.send(a, thread, 'sleep 100');
  expect((await fleet.send(b, thread, 'joins')).owner).toMatch(/^a\./);
  await fleet.hasRun('joins');
  await fleet.idle(thread);
  expect(await fleet.send(b, thread, 'alone')).toMatchObject({ action: 'wake', owner: expect.stringMatching(/^b\./) as string });
  await fleet.hasRun('alone');
  await fleet.idle(thread);
  expect((await fleet.ran()).filter(text => text === 'alone')).toHaveLength(1);
});

test('15: after a kill right behind the start of a run, and a restart of everything, the next message runs', async () => {
  const a = await fleet.pod('a');
  await fleet.send(a, thread, 'sleep 4000');
  await fleet.hasRun('sleep 4000');
  a.kill('SIGKILL');
  await a.exited();
  const b = await fleet.pod('b');
  await fleet.send(b, thread, 'next');
  await fleet.hasRun('next');
});

test('16: a signal that is sent again with its id takes effect once, on whichever pod', async () => {
  const [a, b] = [await fleet.pod('a'), await fleet.pod('b')];
  const signal = { id: 'order-1', type: 'user', contents: 'charge' };
  const first = await fleet.post(a, 'signals', { ...thread, signal });
  const again = await fleet.post(b, 'signals', { ...thread, signal });
  expect(first).toMatchObject({ duplicate: false, action: 'wake' });
  expect(again).toMatchObject({ status: 200, duplicate: true, action: 'wake' });
  await fleet.send(a, thread, 'after');
  await fleet.hasRun('after');
  expect((await fleet.ran()).filter(text => text === 'charge')).toHaveLength(1);
});

test('17: when a run fails, what was queued behind it runs, in order', async () => {
  const pod = await fleet.pod('a');
  await fleet.send(pod, thread, 'sleep 200');
  await fleet.queue(pod, thread, 'throw');
  for (const text of ['one', 'two', 'three']) await fleet.queue(pod, thread, text);
  await fleet.hasRun('three');
  expect(await fleet.ran()).toEqual(['sleep 200', 'throw', 'one', 'two', 'three']);
});

test('19: a signal that wakes an idle thread brings its sender\'s context into the run', async () => {
  const pod = await fleet.pod('a');
  await fleet.send(pod, thread, 'first');
  await fleet.idle(thread);
  const stop = new AbortController();
  const stream = await fetch(`${pod.url}/api/agents/scripted/threads/subscribe`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(thread),
    signal: stop.signal,
  });
  const ifIdle = { behavior: 'wake', streamOptions: { requestContext: { user: 'U' } } };
  expect(await fleet.post(pod, 'send-message', { ...thread, message: 'context', ifIdle })).toMatchObject({ action: 'wake' });
  let text = '';
  for await (const piece of stream.body ?? []) {
    text += Buffer.from(piece as Uint8Array).toString();
    if (text.includes('"finish"')) break;
  }
  expect(text).toContain('"requestContext":{"user":"U"}');
});

test('20: an abort sent to a pod that is not the owner stops the run; a viewer that leaves stops nothing', async () => {
  const [a, b] = [await fleet.pod('a'), await fleet.pod('b')];
  const viewer = new AbortController();
  await fetch(`${b.url}/api/agents/scripted/threads/subscribe`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(thread),
    signal: viewer.signal,
  });
  const { runId } = await fleet.send(a, thread, 'sleep 60000');
  await fleet.hasRun('sleep 60000');
  viewer.abort();
  await fleet.send(b, thread, 'still on');
  expect(await fleet.owner(thread)).toContain(runId);
  expect(await fleet.post(b, 'threads/abort', { ...thread, expectedRunId: 'another' })).toMatchObject({ aborted: false });
  expect(await fleet.post(b, 'threads/abort', thread)).toMatchObject({ aborted: true });
  await until('the run has ended', async () => (await fleet.records()).some(({ event, runId: id }) => event === 'end' && id === runId));
  await fleet.hasRun('still on');
});

test('27: a signal that kills its pod is given up after its deliveries, and the fleet survives', async () => {
  const env = { MAX_DELIVERY_ATTEMPTS: '2' };
  const a = await fleet.pod('a', env);
  await fleet.send(a, thread, 'exit');
  expect(await a.exited()).toBe(42);
  const b = await fleet.pod('b', env);
  expect(await b.exited()).toBe(42);
  const c = await fleet.pod('c', env);
  await fleet.send(c, thread, 'fine');
  await fleet.hasRun('fine');
  expect((await fleet.ran()).filter(text => text === 'exit')).toHaveLength(2);
  const letters = await fleet.client.xrange(new RedisKeys().thread(thread).dead, '-', '+');
  expect(letters).toHaveLength(1);
});
