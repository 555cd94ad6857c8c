/** What every PubSub owes its users. Run on each backend by `pubsub.test.ts`; where one promises less, it says so. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { Event, EventCallback, NewEvent, PubSub } from '../../src/contracts/pubsub.ts';
import { until } from '../support/until.ts';

export interface PubSubUnderTest {
  pubsub: PubSub & { close(): Promise<void> };
  /** Another process of the fleet, as far as the backend is concerned; absent where there is one process only. */
  peer?: PubSub & { close(): Promise<void> };
}

export interface Promises {
  /** Events outlive their publishing: `earliest`, history, redelivery after a nack. */
  keeps: boolean;
  /** A callback that throws or rejects is a nack. */
  failureIsNack: boolean;
  /** `(topic, callback)` twice is one subscription. */
  idempotent: boolean;

  closes: boolean;
  maxDeliveryAttempts: number;
}

const event = (n: number, data: object = {}): NewEvent => ({ type: 'test', data: { n, ...data }, runId: 'run-1' });

/** A callback that notes what it got and acks it. */
function recorder(): { callback: EventCallback; events: Event[]; numbers: () => number[] } {
  const events: Event[] = [];
  const callback: EventCallback = async (received, ack) => {
    events.push(received);
    await ack?.();
  };
  return { callback, events, numbers: () => events.map(({ data }) => (data as { n: number }).n) };
}

export function pubSubContract(name: string, open: () => Promise<PubSubUnderTest>, promises: Promises): void {
  describe(`PubSub contract: ${name}`, () => {
    let pubsub: PubSubUnderTest['pubsub'];
    let peer: PubSubUnderTest['pubsub'];
    let topics = 0;
    let topic = '';

    beforeEach(async () => {
      const opened = await open();
      ({ pubsub } = opened);
      peer = opened.peer ?? pubsub;
      topic = `topic-${topics++}`;
    });
    afterEach(async () => {
      await pubsub.close();
      if (peer !== pubsub) await peer.close();
    });

    it('gives each event an id and a time, and counts its first delivery as 1', async () => {
      const { callback, events } = recorder();
      await pubsub.subscribe(topic, callback);
      await peer.publish(topic, event(1, { text: 'ünïcode 👍', nested: { list: [1, null, 'x'] } }));
      await until('the event arrives', () => events.length === 1);
      const [first] = events;
      expect(first).toMatchObject({ type: 'test', runId: 'run-1', deliveryAttempt: 1 });
      expect(first?.data).toEqual({ n: 1, text: 'ünïcode 👍', nested: { list: [1, null, 'x'] } });
      expect(first?.id).toMatch(/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/);
      expect(first?.createdAt).toBeInstanceOf(Date);
      expect(Math.abs(Date.now() - (first?.createdAt.getTime() ?? 0))).toBeLessThan(60_000);
    });

    it('gives every fan-out subscriber every event, in order', async () => {
      const [a, b, c] = [recorder(), recorder(), recorder()];
      await pubsub.subscribe(topic, a.callback);
      await pubsub.subscribe(topic, b.callback);
      await peer.subscribe(topic, c.callback);
      for (let n = 0; n < 50; n++) await pubsub.publish(topic, event(n));
      const all = Array.from({ length: 50 }, (_, n) => n);
      await until('all have all', () => [a, b, c].every(({ events }) => events.length === 50));
      for (const { numbers } of [a, b, c]) expect(numbers()).toEqual(all);
    });

    it('gives each event to one member of a group, in order, and to each group', async () => {
      const [a, b, other] = [recorder(), recorder(), recorder()];
      await pubsub.subscribe(topic, a.callback, { group: 'workers' });
      await peer.subscribe(topic, b.callback, { group: 'workers' });
      await pubsub.subscribe(topic, other.callback, { group: 'audit' });
      for (let n = 0; n < 50; n++) await pubsub.publish(topic, event(n));
      await until('all are handled', () => a.events.length + b.events.length === 50 && other.events.length === 50);
      const ascending = (numbers: number[]) => expect(numbers).toEqual([...numbers].sort((x, y) => x - y));
      ascending(a.numbers());
      ascending(b.numbers());
      expect([...a.numbers(), ...b.numbers()].sort((x, y) => x - y)).toEqual(Array.from({ length: 50 }, (_, n) => n));
    });

    it('keeps topics apart', async () => {
      const [a, b] = [recorder(), recorder()];
      await pubsub.subscribe(`${topic}-a`, a.callback);
      await pubsub.subscribe(`${topic}-b`, b.callback);
      await pubsub.publish(`${topic}-a`, event(1));
      await pubsub.publish(`${topic}-b`, event(2));
      await until('both arrive', () => a.events.length === 1 && b.events.length === 1);
      expect(a.numbers()).toEqual([1]);
      expect(b.numbers()).toEqual([2]);
    });

    it('gives a nacked event back to its group, with a higher attempt', async () => {
      const attempts: number[] = [];
      await pubsub.subscribe(
        topic,
        (received, ack, nack) => {
          attempts.push(received.deliveryAttempt ?? 0);
          void (attempts.length < 3 ? nack?.() : ack?.());
        },
        { group: 'workers' },
      );
      await peer.publish(topic, event(1));
      await until('the third attempt', () => attempts.length === 3);
      expect(attempts).toEqual([1, 2, 3]);
    });

    it.runIf(promises.failureIsNack)('counts a callback that throws, or rejects, as a nack', async () => {
      const attempts: number[] = [];
      const failing: EventCallback = (received, ack) => {
        attempts.push(received.deliveryAttempt ?? 0);
        if (attempts.length === 1) throw new Error('thrown');
        return attempts.length === 2 ? Promise.reject(new Error('rejected')) : ack?.();
      };
      await pubsub.subscribe(topic, failing, { group: 'workers' });
      await peer.publish(topic, event(1));
      await until('the third attempt', () => attempts.length === 3);
      expect(attempts).toEqual([1, 2, 3]);
    });

    it.runIf(Number.isFinite(promises.maxDeliveryAttempts))('drops an event that was nacked too often, and goes on', async () => {
      const seen: [number, number][] = [];
      await pubsub.subscribe(
        topic,
        (received, ack, nack) => {
          const { n } = received.data as { n: number };
          seen.push([n, received.deliveryAttempt ?? 0]);
          void (n === 1 ? nack?.() : ack?.());
        },
        { group: 'workers' },
      );
      await peer.publish(topic, event(1));
      await until('the last attempt', () => seen.length === promises.maxDeliveryAttempts);
      await peer.publish(topic, event(2));
      await until('the next event', () => seen.some(([n]) => n === 2));
      expect(seen.filter(([n]) => n === 1)).toHaveLength(promises.maxDeliveryAttempts);
    });

    it('settles once: a second ack or nack changes nothing', async () => {
      const { callback: _unused, ...rest } = recorder();
      let calls = 0;
      await pubsub.subscribe(
        topic,
        async (received, ack, nack) => {
          calls++;
          rest.events.push(received);
          await ack?.();
          if (promises.failureIsNack) await nack?.();
          await ack?.();
        },
        { group: 'workers' },
      );
      await peer.publish(topic, event(1));
      await peer.publish(topic, event(2));
      await until('both', () => rest.events.length >= 2);
      await pubsub.flush();
      expect(calls).toBe(2);
    });

    it.runIf(promises.idempotent)('takes the same callback on the same topic twice as one subscription', async () => {
      const { callback, events } = recorder();
      await Promise.all([pubsub.subscribe(topic, callback), pubsub.subscribe(topic, callback)]);
      await pubsub.subscribe(topic, callback);
      const other = recorder();
      await pubsub.subscribe(topic, other.callback);
      await pubsub.publish(topic, event(1));
      await pubsub.publish(topic, event(2));
      await until('both arrive', () => other.events.length === 2 && events.length >= 2);
      expect(events).toHaveLength(2);
    });

    it('delivers nothing to a callback that unsubscribed, and everything to those that stay', async () => {
      const [leaving, staying] = [recorder(), recorder()];
      await pubsub.subscribe(topic, leaving.callback);
      await pubsub.subscribe(topic, staying.callback);
      await pubsub.publish(topic, event(1));
      await until('both have it', () => leaving.events.length === 1 && staying.events.length === 1);
      await pubsub.unsubscribe(topic, leaving.callback);
      await pubsub.publish(topic, event(2));
      await until('the other has it', () => staying.events.length === 2);
      expect(leaving.numbers()).toEqual([1]);
      await pubsub.unsubscribe(topic, leaving.callback);
      await pubsub.unsubscribe('never-heard-of', leaving.callback);
    });

    it('does not wait for a handler before it delivers on', async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      let started = 0;
      await pubsub.subscribe(topic, async (_received, ack) => {
        started++;
        await promise;
        await ack?.();
      });
      for (let n = 0; n < 20; n++) await peer.publish(topic, event(n));
      await until('all have started', () => started === 20);
      resolve();
    });

    it.runIf(promises.keeps)('begins at the earliest event by default, and at the latest when asked', async () => {
      await pubsub.publish(topic, event(1));
      await pubsub.flush();
      const [early, late, lateGroup, replayed] = [recorder(), recorder(), recorder(), recorder()];
      await peer.subscribe(topic, late.callback, { startFrom: 'latest' });
      await peer.subscribe(topic, lateGroup.callback, { startFrom: 'latest', group: 'late' });
      await peer.subscribe(topic, early.callback);
      await peer.subscribeWithReplay(topic, replayed.callback);
      await pubsub.publish(topic, event(2));
      await until('all are there', () => [early, replayed].every(r => r.events.length === 2) && late.events.length > 0 && lateGroup.events.length > 0);
      expect(early.numbers()).toEqual([1, 2]);
      expect(replayed.numbers()).toEqual([1, 2]);
      expect(late.numbers()).toEqual([2]);
      expect(lateGroup.numbers()).toEqual([2]);
    });

    it.runIf(promises.keeps)('lets a group go on where it was, whatever its next member asks for', async () => {
      const first = recorder();
      await pubsub.subscribe(topic, first.callback, { group: 'workers' });
      await pubsub.publish(topic, event(1));
      await until('the first is handled', () => first.events.length === 1);
      await pubsub.unsubscribe(topic, first.callback);
      await peer.publish(topic, event(2));
      const second = recorder();
      await peer.subscribe(topic, second.callback, { group: 'workers', startFrom: 'latest' });
      await until('the second is handled', () => second.events.length === 1);
      expect(second.numbers()).toEqual([2]);
    });

    it.runIf(promises.keeps)('answers what a topic holds, and forgets it when it is cleared', async () => {
      for (let n = 0; n < 5; n++) await pubsub.publish(topic, event(n));
      const history = await peer.getHistory(topic);
      expect(history.map(({ data }) => (data as { n: number }).n)).toEqual([0, 1, 2, 3, 4]);
      expect(history[0]?.createdAt).toBeInstanceOf(Date);
      expect(await peer.getHistory(topic, 3)).toHaveLength(2);
      await pubsub.clearTopic(topic);
      expect(await peer.getHistory(topic)).toEqual([]);
    });

    it('goes on delivering to who is subscribed when a topic is cleared', async () => {
      const [fanout, grouped] = [recorder(), recorder()];
      await pubsub.subscribe(topic, fanout.callback);
      await peer.subscribe(topic, grouped.callback, { group: 'workers' });
      await pubsub.publish(topic, event(1));
      await until('both have it', () => fanout.events.length === 1 && grouped.events.length === 1);
      await pubsub.clearTopic(topic);
      await pubsub.publish(topic, event(2));
      await until('both have the next', () => fanout.events.length === 2 && grouped.events.length === 2);
    });

    it('delivers a localOnly event within the process as it is, methods and all', async () => {
      const received: Event[] = [];
      await pubsub.subscribe(topic, (one, ack) => {
        received.push(one);
        void ack?.();
      });
      const live = { answer: () => 42 };
      await pubsub.publish(topic, event(1, { live }), { localOnly: true });
      await until('it arrives', () => received.length === 1);
      expect((received[0]?.data as { live: typeof live } | undefined)?.live.answer()).toBe(42);
      if (peer !== pubsub) expect(await peer.getHistory(topic)).toEqual([]);
    });

    it('hands out batches of the size asked for, one by one and in order', async () => {
      const { callback, numbers } = recorder();
      await pubsub.subscribe(topic, callback, { batch: { maxSize: 5, maxWaitMs: 60_000 } });
      for (let n = 0; n < 4; n++) await pubsub.publish(topic, event(n));
      const probe = recorder();
      await pubsub.subscribe(`${topic}-probe`, probe.callback);
      await pubsub.publish(`${topic}-probe`, event(0));
      await until('a later event has arrived', () => probe.events.length === 1);
      expect(numbers()).toEqual([]);
      await pubsub.publish(topic, event(4));
      await until('the batch is out', () => numbers().length === 5);
      expect(numbers()).toEqual([0, 1, 2, 3, 4]);
    });

    it('acks what a batch coalesces away', async () => {
      const { callback, numbers } = recorder();
      const newest = (events: Event[]) => events.slice(-1);
      await pubsub.subscribe(topic, callback, { group: 'workers', batch: { maxSize: 3, coalesce: newest } });
      for (let n = 0; n < 6; n++) await pubsub.publish(topic, event(n));
      await until('both batches are out', () => numbers().length === 2);
      expect(numbers()).toEqual([2, 5]);
    });

    it('flush hands out what batches hold', async () => {
      const { callback, numbers } = recorder();
      await pubsub.subscribe(topic, callback, { batch: { maxSize: 100 } });
      for (let n = 0; n < 3; n++) await pubsub.publish(topic, event(n));
      await until('flush hands them out', async () => {
        await pubsub.flush();
        return numbers().length === 3;
      });
      expect(numbers()).toEqual([0, 1, 2]);
    });

    it('survives any race of subscribe, unsubscribe and close', async () => {
      const { callback } = recorder();
      const steps: Promise<void>[] = [];
      for (let round = 0; round < 20; round++) {
        steps.push(pubsub.subscribe(topic, callback, round % 2 === 0 ? { group: 'workers' } : {}));
        if (round % 3 > 0) steps.push(pubsub.unsubscribe(topic, callback));
        steps.push(pubsub.publish(topic, event(round)));
      }
      await Promise.all(steps);
      const late = recorder();
      const race = [pubsub.subscribe(topic, late.callback), pubsub.unsubscribe(topic, late.callback), pubsub.close()];
      await Promise.allSettled(race);
      await pubsub.close();
    });

    it.runIf(promises.closes)('refuses everything after close, and clearTopic still does not throw', async () => {
      await pubsub.close();
      await expect(pubsub.publish(topic, event(1))).rejects.toMatchObject({ code: 'SIG_STORE_UNAVAILABLE' });
      await expect(pubsub.subscribe(topic, () => {})).rejects.toMatchObject({ code: 'SIG_STORE_UNAVAILABLE' });
      await pubsub.clearTopic(topic);
      await pubsub.unsubscribe(topic, () => {});
    });
  });
}
