/** How runs end, in order or not. Part of the contract of the thread mailbox. */

import { describe, expect, test } from 'vitest';

import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { until } from '../support/until.ts';
import { attempts, entryIds, Follower, ranOut, shortMs, signalIds, text } from './mailbox.harness.ts';
import type { Stage } from './mailbox.harness.ts';

export function runTests(stage: () => Stage): void {
  describe('ending runs', () => {
    test('with nothing waiting the thread is free and leaves nothing to do', async () => {
      const { a, b, thread, owner, isDue } = stage();
      const grant = await a.wake(thread, 's');
      const taken = await a.take(thread, grant);
      expect(await a.mailbox.settle({ thread, grant, consumed: entryIds(taken), next: a.claim() })).toEqual({ waiting: 0 });
      expect(await owner()).toBeUndefined();
      expect(await isDue(b)).toBe(false);
      expect(await b.mailbox.claim(thread, b.claim())).toBeUndefined();
      const listed = await b.mailbox.waiting(1000);
      expect(listed.map(state => state.thread.threadId)).not.toContain(thread.threadId);
    });

    test('with something waiting the lease goes to the next run under a higher token', async () => {
      const { a, b, thread, owner } = stage();
      const grant = await a.wake(thread, 's1');
      const taken = await a.take(thread, grant);
      await b.send(thread, 's2');
      const next = a.claim('run-2');
      const settled = await a.mailbox.settle({ thread, grant, consumed: entryIds(taken), next });
      expect(settled).toMatchObject({ waiting: 1, grant: { owner: 'pod-a.1/run-2', ttlMs: next.ttlMs } });
      expect(settled.grant?.fencingToken).toBeGreaterThan(grant.fencingToken ?? Infinity);
      expect(await owner()).toBe('pod-a.1/run-2');
      expect(signalIds(await a.take(thread, settled.grant as Grant))).toEqual(['s2']);
      await expect(a.take(thread, grant)).rejects.toMatchObject({ code: 'SIG_LEASE_LOST' });
    });

    test('S3: without a next run what waits is announced, due everywhere, and a peer’s to take', async () => {
      const { a, b, thread, isDue } = stage();
      const grant = await a.wake(thread, 's1');
      const taken = await a.take(thread, grant);
      await b.send(thread, 's2');
      expect(await a.mailbox.settle({ thread, grant, consumed: entryIds(taken) })).toEqual({ waiting: 1 });
      await until('the peer heard of it', () => b.heard.orphans.includes(thread.threadId));
      expect([await isDue(a), await isDue(b)]).toEqual([true, true]);
      const theirs = (await b.mailbox.claim(thread, b.claim())) as Grant;
      expect(theirs.fencingToken).toBeGreaterThan(grant.fencingToken ?? Infinity);
      expect(await a.mailbox.claim(thread, a.claim())).toBeUndefined();
      expect(signalIds(await b.take(thread, theirs))).toEqual(['s2']);
    });

    test('a settle that is repeated after a lost reply answers the same', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 's1');
      const consumed = entryIds(await a.take(thread, grant));
      await b.send(thread, 's2');
      const continued = { thread, grant, consumed, next: a.claim() };
      const first = await a.mailbox.settle(continued);
      const again = await a.mailbox.settle(continued);
      expect(again).toMatchObject({ waiting: 1, grant: { owner: continued.next.owner } });
      expect(again.grant?.fencingToken).toBe(first.grant?.fencingToken);
      const second = again.grant as Grant;
      const released = { thread, grant: second, consumed: entryIds(await a.take(thread, second)) };
      expect(await a.mailbox.settle(released)).toEqual({ waiting: 0 });
      expect(await a.mailbox.settle(released)).toEqual({ waiting: 0 });
    });

    test('a claim that is repeated after a lost reply gets the same grant', async () => {
      const { a, b, thread } = stage();
      await a.send(thread, 's', { claim: null });
      const claim = b.claim();
      const first = await b.mailbox.claim(thread, claim);
      const again = await b.mailbox.claim(thread, claim);
      expect(again).toMatchObject({ owner: claim.owner });
      expect(again?.fencingToken).toBe(first?.fencingToken);
    });
  });

  describe('losing the lease', () => {
    test('L6: a stale owner takes, settles and puts out nothing, before and after its successor has started', async () => {
      const { a, b, thread, leases } = stage();
      const stale = await a.wake(thread, 's', { claim: a.claim('short', shortMs) });
      const consumed = entryIds(await a.take(thread, stale));
      await a.mailbox.append(thread, stale, text('old'));
      await ranOut(leases, thread);
      const refused = async () => {
        const lost = { code: 'SIG_LEASE_LOST' };
        await expect(a.take(thread, stale)).rejects.toMatchObject(lost);
        await expect(a.mailbox.append(thread, stale, text('stale'))).rejects.toMatchObject(lost);
        await expect(a.mailbox.settle({ thread, grant: stale, consumed })).rejects.toMatchObject(lost);
        await expect(a.mailbox.settle({ thread, grant: stale, consumed, next: a.claim() })).rejects.toMatchObject(lost);
      };
      await refused();
      const grant = (await b.mailbox.claim(thread, b.claim())) as Grant;
      await refused();
      await b.mailbox.append(thread, grant, text('new'));
      expect(signalIds(await b.take(thread, grant))).toEqual(['s']);
      const reader = await Follower.start(a.mailbox, thread, '0-0');
      const [old, cut, fresh] = (await reader.has(3)).map(({ chunk }) => chunk);
      await reader.stop();
      expect([old, fresh]).toEqual([...text('old'), ...text('new')]);
      // Whoever reads is told that no more will come of the run whose owner has gone.
      expect(cut).toMatchObject({ type: 'error', runId: 'short', payload: { error: { code: 'SIG_LEASE_LOST' } } });
    });

    test('L6: the same owner name with another token is not the same owner', async () => {
      const { a, thread, leases } = stage();
      const claim = a.claim('run', shortMs);
      const stale = await a.wake(thread, 's', { claim });
      await ranOut(leases, thread);
      const grant = (await a.mailbox.claim(thread, { ...claim, ttlMs: 60_000 })) as Grant;
      expect(grant.fencingToken).toBeGreaterThan(stale.fencingToken ?? Infinity);
      await expect(a.mailbox.append(thread, stale, text('stale'))).rejects.toMatchObject({ code: 'SIG_LEASE_LOST' });
      await a.mailbox.append(thread, grant, text('new'));
    });

    test('L5: tokens only grow, from owner to owner and instance to instance', async () => {
      const { a, b, thread } = stage();
      const tokens: number[] = [];
      for (const [at, instance] of [a, b, b, a, b].entries()) {
        const grant = await instance.wake(thread, `s${at}`);
        tokens.push(grant.fencingToken ?? Number.NaN);
        const consumed = entryIds(await instance.take(thread, grant));
        await instance.mailbox.settle({ thread, grant, consumed });
      }
      expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y));
      expect(tokens.every(Number.isSafeInteger)).toBe(true);
    });

    test('S3: a thread whose owner has gone is due, and its peer takes it with all that waits', async () => {
      const { b, thread, owner, takenOver } = stage();
      const { grant } = await takenOver('s1', 's2', 's3');
      expect(grant.takenOver).toBe(true);
      expect(await owner()).toBe(grant.owner);
      expect(signalIds(await b.take(thread, grant))).toEqual(['s1', 's2', 's3']);
    });

    test('S3: it is due without anybody claiming it', async () => {
      const { a, b, thread, isDue } = stage();
      await a.wake(thread, 's', { claim: a.claim('short', shortMs) });
      expect(await isDue(b)).toBe(false);
      await until('it is due on both', async () => (await isDue(a)) && (await isDue(b)));
    });

    test('a signal that comes after the owner has gone wakes its receiver, with what had waited before it', async () => {
      const { a, b, thread, leases } = stage();
      const stale = await a.wake(thread, 's1', { claim: a.claim('short', shortMs) });
      await a.take(thread, stale);
      await a.send(thread, 's2');
      await ranOut(leases, thread);
      const grant = await b.wake(thread, 's3');
      const taken = await b.take(thread, grant);
      expect(signalIds(taken)).toEqual(['s1', 's2', 's3']);
      expect(attempts(taken)).toEqual([2, 1, 1]);
    });
  });

  describe('aborting', () => {
    test('an abort from any instance reaches the owner’s listener and its next step', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 's', { claim: a.claim('run-1') });
      const { cursor, abortRequested } = await a.take(thread, grant);
      expect(abortRequested).toBe(false);
      expect(await b.mailbox.abort(thread, { expectedRunId: 'run-0' })).toEqual({ aborted: false, cancelledSignalIds: [] });
      expect(await b.mailbox.abort(thread, { expectedRunId: 'run-1' })).toEqual({ aborted: true, runId: 'run-1', cancelledSignalIds: [] });
      await until('the owner heard of it', () => a.heard.aborts.includes(`${thread.threadId} run-1`));
      expect(b.heard.aborts).not.toContain(`${thread.threadId} run-1`);
      expect((await a.take(thread, grant, { agentId: 'agent', cursor })).abortRequested).toBe(true);
    });

    test('an owner whose hint was lost is told with its next chunk', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 's');
      expect(await a.mailbox.append(thread, grant, text('before'))).toEqual({ abortRequested: false });
      await b.mailbox.abort(thread);
      expect(await a.mailbox.append(thread, grant, text('after'))).toEqual({ abortRequested: true });
    });

    test('an abort may discard what waits, in the same step, and says what; what the run was given stays', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 'given', { claim: a.claim('run-1') });
      const consumed = entryIds(await a.take(thread, grant));
      await b.send(thread, 'waits');
      await b.send(thread, 'waits too', { turn: 'next' });
      const clearWaiting = true;
      expect(await b.mailbox.abort(thread, { expectedRunId: 'run-0', clearWaiting })).toEqual({ aborted: false, cancelledSignalIds: [] });
      expect((await b.mailbox.inspect(thread)).waiting).toBe(3);
      const cancelledSignalIds = ['waits', 'waits too'];
      expect(await b.mailbox.abort(thread, { clearWaiting })).toEqual({ aborted: true, runId: 'run-1', cancelledSignalIds });
      expect((await b.mailbox.inspect(thread)).waiting).toBe(1);
      expect(await a.mailbox.settle({ thread, grant, consumed, next: a.claim() })).toEqual({ waiting: 0 });
      expect(await b.mailbox.abort(thread, { clearWaiting })).toEqual({ aborted: false, cancelledSignalIds: [] });
    });

    test('it concerns that run only, and nothing that is idle', async () => {
      const { a, thread } = stage();
      expect(await a.mailbox.abort(thread)).toMatchObject({ aborted: false });
      const grant = await a.wake(thread, 's1');
      await a.send(thread, 's2', { turn: 'next' });
      expect(await a.mailbox.abort(thread)).toMatchObject({ aborted: true });
      const consumed = entryIds(await a.take(thread, grant));
      const settled = await a.mailbox.settle({ thread, grant, consumed, next: a.claim() });
      expect((await a.take(thread, settled.grant as Grant)).abortRequested).toBe(false);
    });
  });
}
