/** What can be seen of a thread. Part of the contract of the thread mailbox. */

import { describe, expect, test } from 'vitest';

import { threadName } from '../../src/contracts/thread.ts';
import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { until } from '../support/until.ts';
import { entryIds, Follower, Instance, limits, text, words } from './mailbox.harness.ts';
import type { Stage } from './mailbox.harness.ts';

export function outputTests(stage: () => Stage): void {
  describe('following output', () => {
    test('both instances read the same chunks at the same positions, as they are put out', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 's');
      const readers = await Promise.all([Follower.start(a.mailbox, thread), Follower.start(b.mailbox, thread)]);
      const all = Array.from({ length: 30 }, (_, at) => `w${at}`);
      for (let at = 0; at < all.length; at += 3) await a.mailbox.append(thread, grant, text(...all.slice(at, at + 3)));
      const [here = [], there = []] = await Promise.all(readers.map(reader => reader.has(30)));
      expect(words(here)).toEqual(all);
      expect(there).toEqual(here);
      await Promise.all(readers.map(reader => reader.stop()));
      expect(new Set(here.map(({ id }) => id)).size).toBe(30);
    });

    test('a reader that comes late gets the run that is on from its start, and nothing of the one before', async () => {
      const { a, b, thread } = stage();
      const first = await a.wake(thread, 's1');
      await a.mailbox.append(thread, first, text('first'));
      const consumed = entryIds(await a.take(thread, first));
      await b.send(thread, 's2');
      const { grant } = await a.mailbox.settle({ thread, grant: first, consumed, next: a.claim() });
      await a.mailbox.append(thread, grant as Grant, text('second', 'third'));
      for (const at of [a, b]) {
        const reader = await Follower.start(at.mailbox, thread);
        expect(words(await reader.has(2))).toEqual(['second', 'third']);
        await reader.stop();
      }
    });

    test('a reader of an idle thread gets what comes from now on', async () => {
      const { a, b, thread } = stage();
      const first = await a.wake(thread, 's1');
      await a.mailbox.append(thread, first, text('old'));
      await a.mailbox.settle({ thread, grant: first, consumed: entryIds(await a.take(thread, first)) });
      const readers = await Promise.all([Follower.start(a.mailbox, thread), Follower.start(b.mailbox, thread)]);
      const second = await b.wake(thread, 's2');
      await b.mailbox.append(thread, second, text('new'));
      for (const reader of readers) {
        expect(words(await reader.has(1))).toEqual(['new']);
        await reader.stop();
      }
    });

    test('a reader that comes back to either instance goes on right after what it saw, over a change of owner', async () => {
      const { a, b, thread } = stage();
      const first = await a.wake(thread, 's1');
      const reader = await Follower.start(b.mailbox, thread);
      await a.mailbox.append(thread, first, text('1', '2', '3'));
      const seen = (await reader.has(3))[1]?.id;
      await reader.stop();
      await a.mailbox.settle({ thread, grant: first, consumed: entryIds(await a.take(thread, first)) });
      const second = await b.wake(thread, 's2');
      await b.mailbox.append(thread, second, text('4'));
      const back = await Promise.all([Follower.start(a.mailbox, thread, seen), Follower.start(b.mailbox, thread, seen)]);
      await b.mailbox.append(thread, second, text('5'));
      for (const again of back) {
        expect(words(await again.has(3))).toEqual(['3', '4', '5']);
        await again.stop();
      }
    });

    test('a reader that was away for longer than output is kept is told so, and goes on with what there is', async () => {
      const { a, b, thread } = stage();
      const grant = await a.wake(thread, 's');
      await a.mailbox.append(thread, grant, text('first'));
      const reader = await Follower.start(b.mailbox, thread);
      const [first] = await reader.has(1);
      await reader.stop();
      const page = Array.from({ length: 100 }, (_, at) => `w${at}`);
      for (let pages = 0; pages < 30; pages++) await a.mailbox.append(thread, grant, text(...page));
      for (const at of [a, b]) {
        const back = await Follower.start(at.mailbox, thread, first?.id);
        const [missed, next] = await back.has(limits.outputMaxChunks);
        await back.stop();
        expect(missed?.chunk).toEqual({ type: 'signals-missed', payload: { after: first?.id, until: missed?.id } });
        expect(next?.chunk.type).toBe('text-delta');
        expect(back.chunks.length).toBeLessThan(1 + limits.outputMaxChunks * 1.2);
      }
    });
  });

  describe('output that is lost', () => {
    const unheardOf = '99999999999999-0';

    test('a reader who has seen more than there is is told at once, and goes on with what comes', async () => {
      const { a, b, thread } = stage();
      for (const at of [a, b]) {
        const reader = await Follower.start(at.mailbox, thread, unheardOf);
        expect(await reader.has(1)).toEqual([{ id: '0-0', chunk: { type: 'signals-missed', payload: { after: unheardOf, until: '0-0' } } }]);
        await reader.stop();
      }
      const grant = await a.wake(thread, 's');
      await a.mailbox.append(thread, grant, text('old'));
      const readers = await Promise.all([a, b].map(at => Follower.start(at.mailbox, thread, unheardOf)));
      for (const reader of readers) await reader.has(1);
      await a.mailbox.append(thread, grant, text('new'));
      for (const reader of readers) {
        const [missed, next] = await reader.has(2);
        expect(missed?.chunk).toEqual({ type: 'signals-missed', payload: { after: unheardOf, until: missed?.id } });
        expect(next?.chunk).toEqual(text('new')[0]);
        await reader.stop();
      }
    });
  });

  describe('looking at threads', () => {
    test('owner, token and what waits are the same from everywhere', async () => {
      const { a, b, thread } = stage();
      expect(await b.mailbox.inspect(thread)).toEqual({ thread, waiting: 0 });
      const grant = await a.wake(thread, 's1');
      await b.send(thread, 's2');
      for (const at of [a, b]) {
        const state = await at.mailbox.inspect(thread);
        expect(state).toMatchObject({ thread, waiting: 2, owner: grant.owner, fencingToken: grant.fencingToken });
        const listed = await at.mailbox.waiting(1000);
        expect(listed.find(other => threadName(other.thread) === threadName(thread))).toMatchObject({ waiting: 2, owner: grant.owner });
      }
    });

    test('a listener hears that it should look when it starts, and nothing when it has stopped', async () => {
      const { a, b, thread } = stage();
      expect(a.heard.resyncs).toBeGreaterThan(0);
      const deaf = new Instance(a);
      await deaf.listen();
      await deaf.stopListening();
      await a.wake(thread, 's1');
      await b.send(thread, 's2');
      await until('the other listener heard of it', () => a.heard.arrivals.includes(thread.threadId));
      expect(deaf.heard.arrivals).toEqual([]);
    });
  });
}
