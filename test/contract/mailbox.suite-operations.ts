/** What is done to signals from outside of any run. Part of the contract of the thread mailbox. */

import { describe, expect, test } from 'vitest';

import { newRunId, threadLeaseKey, threadName } from '../../src/contracts/thread.ts';
import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { until } from '../support/until.ts';
import { attempts, entryIds, Follower, limits, signalIds, text, words } from './mailbox.harness.ts';
import type { Stage } from './mailbox.harness.ts';

export function operationTests(stage: () => Stage): void {
  describe('operating on signals', () => {
    test('a run that is on is found from anywhere, and no other', async () => {
      const { a, b, thread } = stage();
      const runId = newRunId(thread);
      const grant = await a.wake(thread, 's', { claim: a.claim(runId) });
      for (const { operations } of [a, b]) expect(await operations.findRun(runId)).toEqual(thread);
      await a.mailbox.settle({ thread, grant, consumed: entryIds(await a.take(thread, grant)) });
      for (const { operations } of [a, b]) expect(await operations.findRun(runId)).toBeUndefined();
    });

    test('waiting signals are cancelled from anywhere, those named or all; what a run was given stays its own', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 'given');
      const { cursor } = await a.take(thread, grant);
      for (const id of ['s1', 's2', 's3']) await b.send(thread, id);
      expect(await b.operations.cancel(thread, ['given', 's2', 'unknown'])).toEqual(['s2']);
      expect(signalIds(await a.take(thread, grant, { agentId: 'agent', cursor }))).toEqual(['s1', 's3']);
      await b.send(thread, 's4', { turn: 'next' });
      expect(await b.operations.cancel(thread, [])).toEqual([]);
      expect(await b.operations.cancel(thread)).toEqual(['s4']);
      expect((await b.mailbox.inspect(thread)).waiting).toBe(3);
    });

    test('what an earlier run was given, and the run that is on was not, waits: it can be cancelled', async () => {
      const { a, b, thread, diesAndIsTakenOver } = stage();
      const first = await a.wake(thread, 'first', { agentId: 'agent-1' });
      await a.take(thread, first);
      const { grant } = await a.mailbox.settle({ thread, grant: first, consumed: [], next: a.claim() });
      await a.take(thread, grant as Grant);
      await b.send(thread, 'second', { agentId: 'agent-2', turn: 'next' });
      const second = await diesAndIsTakenOver(grant as Grant, b);
      expect(await a.operations.cancel(thread, ['first'])).toEqual(['first']);
      expect(signalIds(await b.take(thread, second))).toEqual(['second']);
    });

    test('a run that died, and whose signals were cancelled then, is over: those who read are told, and nothing is left of it', async () => {
      const { a, b, thread, leases } = stage();
      const runId = newRunId(thread);
      const grant = await a.wake(thread, 's', { claim: a.claim(runId) });
      await a.take(thread, grant);
      await a.mailbox.append(thread, grant, text('one'));
      const reader = await Follower.start(b.mailbox, thread, '0-0');
      await leases.releaseLease(threadLeaseKey(thread), grant.owner);
      expect(await b.operations.cancel(thread)).toEqual(['s']);
      expect((await reader.has(2))[1]?.chunk).toMatchObject({ type: 'error', runId, payload: { error: { code: 'SIG_LEASE_LOST' } } });
      expect(await b.operations.cancel(thread)).toEqual([]);
      expect(await b.operations.findRun(runId)).toBeUndefined();
      const next = await b.wake(thread, 's2');
      await b.mailbox.append(thread, next, text('two'));
      expect(words(await reader.has(3))).toEqual(['one', undefined, 'two']);
      await reader.stop();
    });

    test('a thread that waits without an owner is counted until somebody takes it', async () => {
      const { b, thread } = stage();
      const before = await b.operations.unattended();
      await b.send(thread, 's', { claim: null });
      const during = await b.operations.unattended();
      expect(during.threads).toBe(before.threads + 1);
      expect(during.oldestMs).toBeGreaterThanOrEqual(0);
      await b.mailbox.claim(thread, b.claim());
      expect((await b.operations.unattended()).threads).toBe(before.threads);
    });

    test('S4: dead letters are listed from anywhere and replayed: they run again, counted from the start', async () => {
      const actors = stage();
      const { a, b, thread, isDue } = actors;
      await kill(actors, 'poison');
      for (const { operations } of [a, b]) {
        const letters = await operations.deadLetters(thread, 10);
        expect(letters).toMatchObject([{ attempts: limits.maxDeliveryAttempts, envelope: { agentId: 'agent', signal: { id: 'poison' } } }]);
        expect(Number.isNaN(Date.parse(letters[0]?.at ?? ''))).toBe(false);
        expect((await operations.threadsWithDeadLetters(1000)).map(threadName)).toContain(threadName(thread));
      }
      expect(await b.operations.replay(thread, ['0-1'])).toBe(0);
      expect(await b.operations.replay(thread)).toBe(1);
      await until('the peers heard of it', () => a.heard.orphans.includes(thread.threadId) && b.heard.orphans.includes(thread.threadId));
      expect([await isDue(a), await isDue(b)]).toEqual([true, true]);
      const grant = (await b.mailbox.claim(thread, b.claim())) as Grant;
      const taken = await b.take(thread, grant);
      expect(signalIds(taken)).toEqual(['poison']);
      expect(attempts(taken)).toEqual([1]);
      expect(await a.operations.deadLetters(thread, 10)).toEqual([]);
      expect((await a.operations.threadsWithDeadLetters(1000)).map(threadName)).not.toContain(threadName(thread));
    });
  });
}

/** Every run that is given the signal dies, until it is given to none. */
async function kill({ a, thread, diesAndIsTakenOver }: Stage, id: string): Promise<void> {
  let grant = await a.wake(thread, id);
  while ((await a.take(thread, grant)).entries.length > 0) grant = await diesAndIsTakenOver(grant, a);
  await a.mailbox.settle({ thread, grant, consumed: [] });
}
