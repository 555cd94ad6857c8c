/** What the real client is told of a signal, and whether that is what becomes of it: two pods on one Redis. */

import { MastraClient } from '@mastra/client-js';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { Fleet } from '../support/fleet.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user', threadId: 'thread' };
let fleet: Fleet;
let a: RuntimeProcess;
let b: RuntimeProcess;

beforeEach(async () => {
  fleet = await Fleet.start();
  [a, b] = await Promise.all([fleet.pod('a'), fleet.pod('b')]);
});
afterEach(() => fleet.stop());

function agentOn(pod: RuntimeProcess, id = 'scripted') {
  return new MastraClient({ baseUrl: pod.url, retries: 0 }).getAgent(id);
}

const discards = { ifActive: { behavior: 'discard' }, ifIdle: { behavior: 'discard' } } as const;
const persists = { ifActive: { behavior: 'persist' }, ifIdle: { behavior: 'persist' } } as const;

test('wake: a run of its own was started, on the pod that was asked', async () => {
  const answer = await agentOn(b).sendMessage({ ...thread, message: 'one' });
  expect(answer).toMatchObject({ accepted: true, action: 'wake', owner: expect.stringMatching(/^b\./) as string });
  await fleet.hasRun('one');
  expect((await fleet.records()).every(({ runId }) => runId === answer.runId)).toBe(true);
});

test('deliver: it joined the run that is on, whichever pod was asked', async () => {
  const { runId } = await agentOn(a).sendMessage({ ...thread, message: 'sleep 1500' });
  await fleet.hasRun('sleep 1500');
  const answers = [
    await agentOn(b).sendMessage({ ...thread, message: 'joins' }),
    await agentOn(b).sendSignal({ runId, signal: { type: 'notification', contents: 'joins by its run' } }),
  ];
  for (const answer of answers) expect(answer).toMatchObject({ accepted: true, action: 'deliver', runId });
  await fleet.hasRun('joins', 'joins by its run');
  expect(new Set((await fleet.records()).map(record => record.runId))).toEqual(new Set([runId]));
});

test('persist: nothing was started, and the next run has it', async () => {
  const kept = await agentOn(a).sendSignal({ ...thread, ...persists, signal: { type: 'notification', contents: 'kept' } });
  expect(kept).toMatchObject({ accepted: true, action: 'persist' });
  expect(kept.runId).toBeUndefined();
  expect(await fleet.owner(thread)).toBeNull();
  const { runId } = await agentOn(b).sendMessage({ ...thread, message: 'sleep 800' });
  await fleet.hasRun('kept', 'sleep 800');
  const later = await agentOn(a).sendSignal({ ...thread, ...persists, signal: { type: 'notification', contents: 'kept too' } });
  expect(later).toMatchObject({ action: 'persist', runId });
  await fleet.idle(thread);
  expect(await fleet.ran()).toEqual(['kept', 'sleep 800']);
  await agentOn(a).sendMessage({ ...thread, message: 'next' });
  await fleet.hasRun('kept too', 'next');
});

test('discard: it is gone, on an idle thread and during a run', async () => {
  const gone = { type: 'notification', contents: 'gone' } as const;
  expect(await agentOn(a).sendSignal({ ...thread, ...discards, signal: gone })).toMatchObject({ accepted: true, action: 'discard' });
  await agentOn(a).sendMessage({ ...thread, message: 'sleep 500' });
  await fleet.hasRun('sleep 500');
  expect(await agentOn(b).sendSignal({ ...thread, ...discards, signal: gone })).toMatchObject({ action: 'discard' });
  await agentOn(b).queueMessage({ ...thread, message: 'last' });
  await fleet.hasRun('last');
  await fleet.idle(thread);
  expect(await fleet.ran()).toEqual(['sleep 500', 'last']);
});

test('blocked: the run that it was meant for is another agent\'s; it is not kept', async () => {
  const { runId } = await agentOn(a).sendMessage({ ...thread, message: 'sleep 800' });
  await fleet.hasRun('sleep 800');
  const signal = { id: 'note', type: 'notification', contents: 'note' } as const;
  for (const pod of [a, b]) {
    const blocked = await agentOn(pod, 'second').sendSignal({ runId, signal });
    expect(blocked).toMatchObject({ accepted: false, action: 'blocked', reason: 'thread-blocked', runId });
  }
  // To the thread it may go: the agents take turns.
  expect(await agentOn(b, 'second').sendSignal({ ...thread, signal })).toMatchObject({ accepted: true, action: 'deliver', duplicate: false });
  await fleet.hasRun('note');
  const of = (text: string) => fleet.records().then(records => records.find(record => record.text === text)?.runId);
  expect(await of('note')).not.toBe(await of('sleep 800'));
});

test('signals of any type reach the agent as they were sent', async () => {
  const signals = [
    { id: 'n', type: 'notification', contents: 'context', attributes: { source: 'ci', n: 1 }, metadata: { deep: [1, null] } },
    { id: 's', type: 'state', contents: [{ type: 'text', text: 'open' }], tagName: 'issue', metadata: { version: 2 } },
    { id: 'r', type: 'reactive', contents: 'reminder', providerOptions: { x: { y: true } } },
  ] as const;
  const subscription = await agentOn(b, 'showing').subscribeToThread(thread);
  const shown: unknown[] = [];
  const reading = subscription.processDataStream({
    onChunk: chunk => Promise.resolve((chunk as { type: string }).type === 'shown' ? void shown.push((chunk as { payload: unknown }).payload) : undefined),
  });
  for (const signal of signals) await agentOn(a, 'showing').sendSignal({ ...thread, signal: signal as never });
  await until('all were shown', () => shown.length === signals.length);
  expect(shown).toEqual(signals.map(signal => ({ ...signal, createdAt: expect.any(String) as string })));
  subscription.unsubscribe();
  await reading;
});

test('abort: from any pod, only the run that is meant, and what was queued behind it runs', async () => {
  const { runId } = await agentOn(a).sendMessage({ ...thread, message: 'sleep 60000' });
  await fleet.hasRun('sleep 60000');
  await agentOn(b).queueMessage({ ...thread, message: 'queued' });
  expect(await agentOn(b).abortThread({ ...thread, expectedRunId: 'another' })).toMatchObject({ aborted: false });
  expect(await agentOn(b).abortThread({ ...thread, expectedRunId: runId })).toMatchObject({ aborted: true, runId });
  await fleet.hasRun('queued');
  await fleet.idle(thread);
  expect(await agentOn(b).abortThread(thread)).toMatchObject({ aborted: false });
});

test('abort and clear: what was queued behind the run is discarded, and named', async () => {
  const { runId } = await agentOn(a).sendMessage({ ...thread, message: 'sleep 60000' });
  await fleet.hasRun('sleep 60000');
  await agentOn(b).queueMessage({ ...thread, message: { id: 'q', contents: 'queued' } as never });
  // The client has no word for it.
  const answer = await fleet.post(b, 'threads/abort', { ...thread, expectedRunId: runId, clearPendingSignals: true });
  expect(answer).toMatchObject({ aborted: true, runId, cancelledSignalIds: ['q'] });
  await fleet.idle(thread);
  expect(await fleet.ran()).toEqual(['sleep 60000']);
});
