/** Accepting signals and giving them to runs. Part of the contract of the thread mailbox. */

import { describe, expect, test } from 'vitest';

import { threadLeaseKey } from '../../src/contracts/thread.ts';
import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { until } from '../support/until.ts';
import { attempts, entryIds, limits, signalIds } from './mailbox.harness.ts';
import type { Stage } from './mailbox.harness.ts';

export function signalTests(stage: () => Stage): void {
  describe('accepting signals', () => {
    test('the first wakes its sender, the others go to the owner and tell it, wherever they come in', async () => {
      const { a, b, thread, owner } = stage();
      const woken = await a.send(thread, 's1', { claim: a.claim('run-1') });
      expect(woken).toMatchObject({ action: 'wake', duplicate: false, owner: 'pod-a.1/run-1' });
      expect(woken.grant).toMatchObject({ key: threadLeaseKey(thread), owner: 'pod-a.1/run-1' });
      expect(await owner()).toBe('pod-a.1/run-1');
      for (const [at, id] of [[a, 's2'], [b, 's3']] as const) {
        const delivered = await at.send(thread, id);
        expect(delivered).toMatchObject({ action: 'deliver', duplicate: false, owner: 'pod-a.1/run-1' });
        expect(delivered.grant).toBeUndefined();
      }
      const arrived = () => a.heard.arrivals.filter(id => id === thread.threadId).length;
      await until('the owner heard of both', () => arrived() === 2);
      expect(b.heard.arrivals).not.toContain(thread.threadId);
    });

    test('a run gets them in the order of acceptance, from both instances', async () => {
      const { a, b, thread } = stage();
      const ids = Array.from({ length: 20 }, (_, at) => `s${at}`);
      const grant = await a.wake(thread, 's0');
      for (const [at, id] of ids.entries()) if (at > 0) await (at % 2 ? b : a).send(thread, id);
      const taken = await a.take(thread, grant);
      expect(signalIds(taken)).toEqual(ids);
      expect(new Set(entryIds(taken)).size).toBe(20);
    });

    test('S2: an id is accepted once, on either instance, during a run and after it', async () => {
      const { a, b, thread, owner } = stage();
      const grant = await a.wake(thread, 'same');
      for (const at of [a, b]) {
        const again = await at.send(thread, 'same');
        expect(again).toMatchObject({ action: 'wake', duplicate: true, owner: grant.owner });
        expect(again.grant).toBeUndefined();
      }
      const taken = await a.take(thread, grant);
      expect(signalIds(taken)).toEqual(['same']);
      expect(await a.mailbox.settle({ thread, grant, consumed: entryIds(taken) })).toEqual({ waiting: 0 });
      const later = await b.wake(thread, 'later');
      await b.mailbox.settle({ thread, grant: later, consumed: entryIds(await b.take(thread, later)) });
      // Told what became of it then, not whose the thread is by now.
      for (const at of [b, a, b]) {
        const again = await at.send(thread, 'same');
        expect(again).toMatchObject({ action: 'wake', duplicate: true, owner: grant.owner });
        expect(again.grant).toBeUndefined();
      }
      expect(await owner()).toBeUndefined();
      expect((await a.mailbox.inspect(thread)).waiting).toBe(0);
    });

    test('S2: an id that both instances send at once is accepted once', async () => {
      const { a, b, thread } = stage();
      const both = await Promise.all([a.send(thread, 'same'), b.send(thread, 'same')]);
      expect(both.filter(delivery => !delivery.duplicate)).toHaveLength(1);
      expect(both.filter(delivery => delivery.grant)).toHaveLength(1);
      expect((await a.mailbox.inspect(thread)).waiting).toBe(1);
    });

    test('the same request again, after a lost reply, gets the same grant', async () => {
      const { a, thread } = stage();
      const claim = a.claim();
      const first = await a.send(thread, 's', { claim });
      const again = await a.send(thread, 's', { claim });
      expect(again).toMatchObject({ action: 'wake', duplicate: true, owner: claim.owner });
      expect(again.grant?.fencingToken).toBe(first.grant?.fencingToken);
      expect(again.grant?.owner).toBe(claim.owner);
      expect(signalIds(await a.take(thread, again.grant as Grant))).toEqual(['s']);
    });

    test('a signal passes through untouched, with the attributes of the branch that was taken', async () => {
      const { a, b, thread } = stage();
      const branches = {
        ifActive: { behavior: 'deliver', attributes: { branch: 'active', own: 2 } },
        ifIdle: { behavior: 'wake', attributes: { branch: 'idle', own: 2 } },
      } as const;
      const signal = { attributes: { own: 1, kept: true }, metadata: { m: [1, null] }, tagName: 't' };
      const grant = await a.wake(thread, 's1', { ...branches, signal, contents: [{ type: 'text', text: 'ü\u0000"{}' }] });
      await b.send(thread, 's2', { ...branches });
      const { entries } = await a.take(thread, grant);
      expect(entries[0]?.envelope.signal).toEqual({
        id: 's1', type: 'user', contents: [{ type: 'text', text: 'ü\u0000"{}' }], createdAt: '2026-01-01T00:00:00.000Z',
        attributes: { own: 2, kept: true, branch: 'idle' }, metadata: { m: [1, null] }, tagName: 't',
      });
      expect(entries[1]?.envelope.signal.attributes).toEqual({ branch: 'active', own: 2 });
      expect(Object.keys(entries[0]?.envelope ?? {}).sort()).toEqual(['agentId', 'signal', 'turn']);
    });

    test('what the sender does with its object afterwards changes nothing', async () => {
      const { a, thread } = stage();
      const contents = { text: 'before' };
      const grant = await a.wake(thread, 's', { contents });
      contents.text = 'after';
      expect((await a.take(thread, grant)).entries[0]?.envelope.signal.contents).toEqual({ text: 'before' });
    });

    test('a discarded signal leaves nothing but its id', async () => {
      const { a, b, thread, owner } = stage();
      const idle = { ifIdle: { behavior: 'discard' } } as const;
      expect(await a.send(thread, 's1', idle)).toMatchObject({ action: 'discard', duplicate: false });
      expect(await b.send(thread, 's1', idle)).toMatchObject({ action: 'discard', duplicate: true });
      expect(await owner()).toBeUndefined();
      const grant = await a.wake(thread, 's2');
      expect(await b.send(thread, 's3', { ifActive: { behavior: 'discard' } })).toMatchObject({ action: 'discard' });
      expect(signalIds(await a.take(thread, grant))).toEqual(['s2']);
    });

    test('a persisted signal wakes nobody and goes to the next run', async () => {
      const { a, b, thread, owner, isDue } = stage();
      expect(await b.send(thread, 's1', { ifIdle: { behavior: 'persist' } })).toMatchObject({ action: 'persist' });
      expect(await owner()).toBeUndefined();
      expect(await isDue(a)).toBe(false);
      expect(await a.mailbox.claim(thread, a.claim())).toBeUndefined();
      expect(await owner()).toBeUndefined();
      const grant = await a.wake(thread, 's2');
      const taken = await a.take(thread, grant);
      expect(signalIds(taken)).toEqual(['s1', 's2']);
      expect(taken.entries.map(entry => entry.waking)).toEqual([false, true]);
      await b.send(thread, 's3', { ifActive: { behavior: 'persist' } });
      const settled = await a.mailbox.settle({ thread, grant, consumed: entryIds(taken), next: a.claim() });
      expect(settled).toEqual({ waiting: 0 });
      expect((await b.mailbox.inspect(thread)).waiting).toBe(1);
    });

    test('a signal for a run that is not the one that is on is refused and not kept', async () => {
      const { a, b, thread } = stage();
      await expect(a.send(thread, 's0', { expectedRunId: 'run-1' })).rejects.toMatchObject({ code: 'SIG_RUN_UNKNOWN' });
      const grant = await a.wake(thread, 's1', { claim: a.claim('run-1') });
      for (const at of [a, b]) {
        await expect(at.send(thread, 's2', { expectedRunId: 'run-0' })).rejects.toMatchObject({ code: 'SIG_RUN_UNKNOWN' });
      }
      expect(await b.send(thread, 's3', { expectedRunId: 'run-1' })).toMatchObject({ action: 'deliver' });
      expect(signalIds(await a.take(thread, grant))).toEqual(['s1', 's3']);
    });

    test('a signal for a run that is another agent\'s is blocked and not kept; it may be sent again without that', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 's1', { claim: a.claim('run-1') });
      const blocked = async (id: string) => {
        for (const at of [a, b]) {
          const delivery = await at.send(thread, id, { agentId: 'agent-2', expectedRunId: 'run-1' });
          expect(delivery).toEqual({ action: 'blocked', duplicate: false, owner: grant.owner });
        }
      };
      await blocked('before it has taken');
      const { cursor } = await a.take(thread, grant);
      await blocked('s2');
      expect((await b.mailbox.inspect(thread)).waiting).toBe(1);
      expect(await b.send(thread, 's2', { agentId: 'agent-2' })).toMatchObject({ action: 'deliver', duplicate: false });
      expect(await b.send(thread, 's3', { expectedRunId: 'run-1' })).toMatchObject({ action: 'deliver' });
      expect(signalIds(await a.take(thread, grant, { agentId: 'agent', cursor }))).toEqual(['s3']);
    });

    test('backpressure: a full inbox refuses and loses nothing, and accepts again when there is room', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 's0');
      for (let at = 1; at < limits.maxEntries; at++) await a.send(thread, `s${at}`);
      for (const at of [a, b]) {
        await expect(at.send(thread, 'more')).rejects.toMatchObject({ code: 'SIG_INBOX_FULL', retryable: true });
      }
      const taken = await a.take(thread, grant);
      expect(taken.entries).toHaveLength(limits.maxEntries);
      await a.mailbox.settle({ thread, grant, consumed: entryIds(taken) });
      expect(await b.send(thread, 'more')).toMatchObject({ action: 'wake', duplicate: false });
    });

    test('backpressure: the size of all that waits is bounded, also after some went', async () => {
      const { a, b, thread } = stage();
      const contents = 'x'.repeat(3000);
      const grant = await a.wake(thread, 's0', { contents });
      for (let at = 1; at < 6; at++) await b.send(thread, `s${at}`, { contents });
      await expect(b.send(thread, 's6', { contents })).rejects.toMatchObject({ code: 'SIG_INBOX_FULL' });
      const [first = ''] = entryIds(await a.take(thread, grant));
      const next = await a.mailbox.settle({ thread, grant, consumed: [first], next: a.claim() });
      expect(next.waiting).toBe(5);
      expect(await b.send(thread, 's6', { contents })).toMatchObject({ action: 'deliver' });
      await expect(b.send(thread, 's7', { contents })).rejects.toMatchObject({ code: 'SIG_INBOX_FULL' });
    });

    test('a signal over the limit is refused, counted in bytes', async () => {
      const { a, thread, owner } = stage();
      await expect(a.send(thread, 's', { contents: 'ü'.repeat(1990) })).rejects.toMatchObject({ code: 'SIG_SIGNAL_TOO_LARGE' });
      expect(await owner()).toBeUndefined();
      expect(await a.send(thread, 's', { contents: 'ü'.repeat(1500) })).toMatchObject({ action: 'wake' });
    });

    test('S3: a waking signal to an instance that takes no threads waits for a peer, who is told', async () => {
      const { a, b, thread, isDue } = stage();
      expect(await a.send(thread, 's', { claim: null })).toMatchObject({ action: 'wake', duplicate: false });
      await until('the peer heard of it', () => b.heard.orphans.includes(thread.threadId));
      expect(await isDue(b)).toBe(true);
      const grant = (await b.mailbox.claim(thread, b.claim())) as Grant;
      expect(signalIds(await b.take(thread, grant))).toEqual(['s']);
      expect(await isDue(a)).toBe(false);
    });
  });

  describe('giving signals to runs', () => {
    test('a run gets those of its leader’s agent; queued turns are runs of their own, in order', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 'q1', { turn: 'next' });
      await a.send(thread, 'other', { agentId: 'agent-2' });
      await b.send(thread, 'q2', { turn: 'next' });
      await b.send(thread, 'm1');
      await a.send(thread, 'm2');
      const runs: string[][] = [];
      for (let current: Grant | undefined = grant; current; ) {
        const taken = await a.take(thread, current);
        runs.push(signalIds(taken));
        const settled = await a.mailbox.settle({ thread, grant: current, consumed: entryIds(taken), next: a.claim() });
        current = settled.grant;
      }
      expect(runs).toEqual([['q1', 'm1', 'm2'], ['other'], ['q2']]);
    });

    test('a run that is on gets what came since, for its agent, and no queued turn', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 's1');
      const { cursor } = await a.take(thread, grant);
      expect((await a.take(thread, grant, { agentId: 'agent', cursor })).entries).toEqual([]);
      await b.send(thread, 's2');
      await b.send(thread, 'q', { turn: 'next' });
      await b.send(thread, 'other', { agentId: 'agent-2' });
      await a.send(thread, 's3');
      const more = await a.take(thread, grant, { agentId: 'agent', cursor });
      expect(signalIds(more)).toEqual(['s2', 's3']);
      expect(attempts(more)).toEqual([1, 1]);
      const none = await a.take(thread, grant, { agentId: 'agent', cursor: more.cursor });
      expect(none.entries).toEqual([]);
    });

    test('only what was given counts as a delivery, and not what is given back', async () => {
      const { a, thread } = stage();
      const grant = await a.wake(thread, 's1');
      await a.send(thread, 'q', { turn: 'next' });
      await a.send(thread, 's2');
      const taken = await a.take(thread, grant);
      expect(signalIds(taken)).toEqual(['s1', 's2']);
      const [first = '', second = ''] = entryIds(taken);
      const one = await a.mailbox.settle({ thread, grant, consumed: [first], returned: [second], next: a.claim() });
      const again = await a.take(thread, one.grant as Grant);
      expect(signalIds(again)).toEqual(['q', 's2']);
      expect(attempts(again)).toEqual([1, 1]);
    });

    test('S1: a takeover gives what was not settled again, in order, as a higher attempt', async () => {
      const { a, b, thread, takenOver } = stage();
      const { grant } = await takenOver('s1', 's2');
      await a.send(thread, 's3');
      const taken = await b.take(thread, grant);
      expect(signalIds(taken)).toEqual(['s1', 's2', 's3']);
      expect(attempts(taken)).toEqual([2, 2, 1]);
    });

    test('S4: what was given too often goes to the dead letters and comes no more; what came after it goes on', async () => {
      const { a, b, thread, diesAndIsTakenOver } = stage();
      let grant = await a.wake(thread, 'poison');
      for (let attempt = 1; attempt <= limits.maxDeliveryAttempts; attempt++) {
        const taken = await a.take(thread, grant);
        expect(attempts(taken)).toEqual([attempt]);
        expect(taken.deadLettered).toBe(0);
        // Asked again after a lost reply, it is given the same, and no more often.
        expect(attempts(await a.take(thread, grant))).toEqual([attempt]);
        if (attempt === limits.maxDeliveryAttempts) await b.send(thread, 'good', { turn: 'next' });
        grant = await diesAndIsTakenOver(grant, a);
      }
      const after = await a.take(thread, grant);
      expect(after.deadLettered).toBe(1);
      expect(signalIds(after)).toEqual(['good']);
      expect(attempts(after)).toEqual([1]);
      const settled = await a.mailbox.settle({ thread, grant, consumed: entryIds(after), next: a.claim() });
      expect(settled).toEqual({ waiting: 0 });
      expect((await b.mailbox.inspect(thread)).waiting).toBe(0);
      expect(await b.send(thread, 'poison')).toMatchObject({ duplicate: true });
    });

    test('a run that was cut short and says so counts as one more attempt, and never towards the dead letters', async () => {
      const { a, b, thread, diesAndIsTakenOver } = stage();
      let grant = await a.wake(thread, 's');
      for (let attempt = 1; attempt <= 4 * limits.maxDeliveryAttempts; attempt += 4) {
        // A drain settles, without having consumed what it was given.
        expect(attempts(await a.take(thread, grant))).toEqual([attempt]);
        grant = (await a.mailbox.settle({ thread, grant, consumed: [], next: a.claim() })).grant as Grant;
        expect(attempts(await a.take(thread, grant))).toEqual([attempt + 1]);
        // One that lost its lease can't settle any more; before its successor has taken, and after.
        const lost = grant;
        grant = await diesAndIsTakenOver(lost, b);
        await a.mailbox.spare(thread, lost);
        expect(attempts(await b.take(thread, grant))).toEqual([attempt + 2]);
        const late = grant;
        grant = await diesAndIsTakenOver(late, a);
        expect(attempts(await a.take(thread, grant))).toEqual([attempt + 3]);
        await b.mailbox.spare(thread, late);
        await b.mailbox.spare(thread, late);
        grant = (await a.mailbox.settle({ thread, grant, consumed: [], next: a.claim() })).grant as Grant;
      }
    });

    test('one that says so of its own run spares nothing of others', async () => {
      const { a, b, thread, diesAndIsTakenOver } = stage();
      let grant = await a.wake(thread, 's');
      await a.take(thread, grant);
      const stale = grant;
      for (let deaths = 1; deaths <= limits.maxDeliveryAttempts; deaths++) {
        grant = await diesAndIsTakenOver(grant, b);
        expect((await b.take(thread, grant)).deadLettered).toBe(0);
        await a.mailbox.spare(thread, stale);
      }
      grant = await diesAndIsTakenOver(grant, b);
      expect((await b.take(thread, grant)).deadLettered).toBe(1);
    });
  });
}
