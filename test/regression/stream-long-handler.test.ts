/** An idle limit that is shorter than a handler made the only consumer claim, and handle, its own event again. */

import { describe, expect, it } from 'vitest';

import { newEvent, oneRedis, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { until } from '../support/until.ts';

describe('a handler that takes longer than the idle limit', () => {
  const fixture = new StreamsFixture();
  const store = oneRedis(fixture);
  const fast = () => ({ url: store.server.url, reclaimIntervalMs: 40, reclaimIdleMs: 100 });

  const pendingOf = async (topic: string) => {
    const rows = (await store.redis.xpending(`mastra:topic:${topic}`, 'workers', '-', '+', 100)) as [string, string, number, number][];
    return rows.map(([id, consumer, idleMs, deliveries]) => ({ id, consumer, idleMs, deliveries }));
  };

  it('is invoked once by the one consumer there is', async () => {
    const pubsub = fixture.open(fast());
    const release = Promise.withResolvers<void>();
    let invoked = 0;
    await pubsub.subscribe(
      'long',
      async (_event, ack) => {
        invoked++;
        await release.promise;
        await ack?.();
      },
      { group: 'workers' },
    );
    await pubsub.publish('long', newEvent(1));
    await until('it has been idle for many reclaim rounds', async () => ((await pendingOf('long'))[0]?.idleMs ?? 0) > 800);
    expect(invoked).toBe(1);
    release.resolve();
    await until('it is settled', async () => (await pendingOf('long')).length === 0);
    expect(invoked).toBe(1);
  });

  it('keeps its event from siblings for as long as it extends', async () => {
    const [holder, sibling] = [fixture.open(fast()), fixture.open(fast())];
    const release = Promise.withResolvers<void>();
    const holding = Promise.withResolvers<() => Promise<void>>();
    const other = recorder();
    await holder.subscribe(
      'extended',
      async (_event, ack, _nack, extend) => {
        holding.resolve(extend ?? (() => Promise.reject(new Error('no extend'))));
        await release.promise;
        await ack?.();
      },
      { group: 'workers' },
    );
    await holder.publish('extended', newEvent(1));
    const extend = await holding.promise;
    const timer = setInterval(() => void extend(), 20);
    await sibling.subscribe('extended', other.callback, { group: 'workers' });
    const startMs = performance.now();
    await until('several idle limits have passed', () => performance.now() - startMs > 600);
    expect(other.events).toHaveLength(0);
    clearInterval(timer);
    await until('without it a sibling takes over', () => other.events.length === 1);
    expect(other.events[0]?.deliveryAttempt).toBe(2);
    release.resolve();
  });

  it('does not settle what a sibling has claimed: the event is settled once, by who has it', async () => {
    const holder = fixture.open({ url: store.server.url, reclaimIntervalMs: 0 });
    const held = Promise.withResolvers<{ ack: () => Promise<void>; nack: () => Promise<void> }>();
    await holder.subscribe(
      'claimed',
      (_event, ack, nack) => {
        if (ack && nack) held.resolve({ ack, nack });
      },
      { group: 'workers' },
    );
    await holder.publish('claimed', newEvent(1));
    const { nack } = await held.promise;
    const [entry] = await pendingOf('claimed');
    // The sibling claims just as the handler settles.
    await store.redis.xclaim('mastra:topic:claimed', 'workers', 'sibling', 0, entry?.id ?? '');
    await nack();
    expect(await pendingOf('claimed')).toMatchObject([{ id: entry?.id, consumer: 'sibling' }]);
    expect(await store.redis.xlen('mastra:topic:claimed')).toBe(1);
  });

  it('nor acks it', async () => {
    const holder = fixture.open({ url: store.server.url, reclaimIntervalMs: 0 });
    const acks: (() => Promise<void>)[] = [];
    await holder.subscribe('acked', (_event, ack) => void (ack && acks.push(ack)), { group: 'workers' });
    for (let n = 0; n < 20; n++) await holder.publish('acked', newEvent(n));
    await until('all are held', () => acks.length === 20);
    const before = await pendingOf('acked');
    const claimed = before.filter((_row, at) => at % 3 === 0).map(({ id }) => id);
    await store.redis.xclaim('mastra:topic:acked', 'workers', 'sibling', 0, ...claimed);
    // Some are kept by their handlers, so that the acks are not one run of neighbours.
    await Promise.all(acks.filter((_ack, at) => at % 5 !== 1).map(ack => ack()));
    const after = await pendingOf('acked');
    const kept = before.filter((_row, at) => at % 3 === 0 || at % 5 === 1).map(({ id }) => id);
    expect(after.map(({ id }) => id)).toEqual(kept);
    expect(after.filter(({ consumer }) => consumer === 'sibling').map(({ id }) => id)).toEqual(claimed);
  });
});
