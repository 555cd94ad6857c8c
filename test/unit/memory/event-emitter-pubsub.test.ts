import { describe, expect, it } from 'vitest';

import { EventEmitterPubSub } from '../../../src/memory/event-emitter-pubsub.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const event = (n: number) => ({ type: 'test', data: { n }, runId: 'run' });

describe('the in-process PubSub', () => {
  it('gives every subscriber a chain of events in the order of their publishing', async () => {
    const pubsub = new EventEmitterPubSub();
    const [first, second]: [number[], number[]] = [[], []];
    await pubsub.subscribe('t', ({ data: { n } }) => {
      first.push(n as number);
      if (n === 1) void pubsub.publish('t', event(2));
    });
    await pubsub.subscribe('t', ({ data: { n } }) => void second.push(n as number));
    await pubsub.publish('t', event(1));
    expect(first).toEqual([1, 2]);
    expect(second).toEqual([1, 2]);
  });

  it('gives a nacked event to the next member of its group, and a fan-out subscriber its own again', async () => {
    const clock = new FakeClock();
    const pubsub = new EventEmitterPubSub({ clock });
    const seen: string[] = [];
    const member = (name: string) => (one: { deliveryAttempt?: number }, ack?: () => Promise<void>, nack?: () => Promise<void>) => {
      seen.push(`${name}${one.deliveryAttempt}`);
      void (one.deliveryAttempt === 1 ? nack?.() : ack?.());
    };
    await pubsub.subscribe('t', member('a'), { group: 'workers' });
    await pubsub.subscribe('t', member('b'), { group: 'workers' });
    await pubsub.subscribe('t', member('fan'));
    await pubsub.publish('t', event(1));
    await clock.advance(0);
    expect(seen.sort()).toEqual(['a1', 'b2', 'fan1', 'fan2']);
  });

  it('keeps nothing of a topic that nobody listens to', async () => {
    const pubsub = new EventEmitterPubSub();
    const seen: number[] = [];
    await pubsub.publish('t', event(1));
    const callback = ({ data: { n } }: { data: { n: number } }) => void seen.push(n);
    await pubsub.subscribe('t', callback);
    await pubsub.unsubscribe('t', callback);
    await pubsub.publish('t', event(2));
    expect(seen).toEqual([]);
    expect(await pubsub.getHistory('t')).toEqual([]);
  });

  it('hands what a batch held to another member when its holder leaves', async () => {
    const clock = new FakeClock();
    const pubsub = new EventEmitterPubSub({ clock });
    const other: number[] = [];
    const holder = () => {};
    await pubsub.subscribe('t', holder, { group: 'workers', batch: { maxSize: 10 } });
    await pubsub.publish('t', event(1));
    await pubsub.subscribe('t', ({ data: { n } }) => void other.push(n as number), { group: 'workers' });
    await pubsub.unsubscribe('t', holder);
    await clock.advance(0);
    expect(other).toEqual([1]);
  });

  it('leaves no timer behind when it is closed', async () => {
    const clock = new FakeClock();
    const pubsub = new EventEmitterPubSub({ clock });
    await pubsub.subscribe('t', () => {}, { batch: { maxWaitMs: 100 } });
    await pubsub.subscribe('t', (_event, _ack, nack) => void nack?.(), { group: 'workers' });
    await pubsub.publish('t', event(1));
    await pubsub.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it('refuses a cap on attempts that makes no sense', () => {
    expect(() => new EventEmitterPubSub({ maxDeliveryAttempts: 0 })).toThrow('maxDeliveryAttempts');
  });
});
