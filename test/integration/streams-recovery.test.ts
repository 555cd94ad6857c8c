/** What was left by the dead, and what went wrong with entries: taken over, cleaned up, counted and said. */

import { describe, expect, it } from 'vitest';

import { newEvent, oneRedis, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { until } from '../support/until.ts';

describe('recovery', () => {
  const fixture = new StreamsFixture();
  const store = oneRedis(fixture);
  const key = 'mastra:topic:t';

  /** A consumer that reads everything and dies. */
  const deadConsumer = async (count: number) => {
    const publisher = fixture.open({ url: store.server.url });
    for (let n = 0; n < count; n++) await publisher.publish('t', newEvent(n));
    await store.redis.xgroup('CREATE', key, 'workers', '0', 'MKSTREAM');
    await store.redis.xreadgroup('GROUP', 'workers', 'dead', 'STREAMS', key, '>');
  };
  const pending = async () => ((await store.redis.xpending(key, 'workers')) as [number])[0];

  it('takes over what a dead consumer had read, and says that it is not the first delivery', async () => {
    await deadConsumer(250);
    const pubsub = fixture.open({ url: store.server.url, reclaimIntervalMs: 40, reclaimIdleMs: 60 });
    const { callback, events, numbers } = recorder();
    await pubsub.subscribe('t', callback, { group: 'workers' });
    await until('all are handled', () => events.length >= 250);
    expect(new Set(numbers()).size).toBe(250);
    expect(events.every(({ deliveryAttempt }) => deliveryAttempt === 2)).toBe(true);
    await until('and settled', async () => (await pending()) === 0);
  });

  it('leaves it alone when reclaiming is off', async () => {
    await deadConsumer(3);
    const pubsub = fixture.open({ url: store.server.url, reclaimIntervalMs: 0, reclaimIdleMs: 1 });
    const { callback, events } = recorder();
    await pubsub.subscribe('t', callback, { group: 'workers' });
    await pubsub.publish('t', newEvent(100));
    await until('a new event is handled', () => events.length === 1);
    expect(await pending()).toBe(3);
  });

  it("drops an event that killed its handlers as often as allowed, by Redis's own count", async () => {
    await deadConsumer(1);
    const [[id] = ['']] = (await store.redis.xpending(key, 'workers', '-', '+', 1)) as [string][];
    for (let death = 0; death < 2; death++) await store.redis.xclaim(key, 'workers', `dead-${death}`, 0, id);
    const pubsub = fixture.open({ url: store.server.url, reclaimIntervalMs: 40, reclaimIdleMs: 60, maxDeliveryAttempts: 3 });
    const { callback, events } = recorder();
    await pubsub.subscribe('t', callback, { group: 'workers' });
    await until('it is given up', async () => (await pending()) === 0);
    expect(events).toHaveLength(0);
    expect(fixture.warnings(/dropped/)).toMatchObject([{ fields: { topic: 't', group: 'workers', attempt: 3 } }]);
  });

  it('nacks for a handler that is silent for too long, once', async () => {
    const pubsub = fixture.open({ url: store.server.url, inFlightTimeoutMs: 100 });
    const attempts: number[] = [];
    let late: (() => Promise<void>) | undefined;
    await pubsub.subscribe(
      't',
      (event, ack) => {
        attempts.push(event.deliveryAttempt ?? 0);
        if (attempts.length === 1) late = ack;
        else void ack?.();
      },
      { group: 'workers' },
    );
    await pubsub.publish('t', newEvent(1));
    await until('it is given again', () => attempts.length === 2);
    await late?.();
    expect(attempts).toEqual([1, 2]);
    await pubsub.flush();
    expect(await pending()).toBe(0);
    expect(await store.redis.xlen(key)).toBe(2);
  });

  it('removes consumers that have been dead for long, but none that has something pending', async () => {
    await deadConsumer(1);
    await store.redis.xgroup('CREATECONSUMER', key, 'workers', 'idle');
    await store.redis.xgroup('CREATE', key, '__fanout-1', '$');
    await store.redis.xgroup('CREATECONSUMER', key, '__fanout-1', 'live');
    // With everything idle for 10 x 1 ms counting as dead, and nothing old enough to be claimed within this test.
    const pubsub = fixture.open({ url: store.server.url, reclaimIntervalMs: 20, reclaimIdleMs: 1 });
    const { callback } = recorder();
    await pubsub.subscribe('t', callback, { group: 'workers', batch: { maxSize: 100 } });
    const names = async () =>
      ((await store.redis.xinfo('CONSUMERS', key, 'workers')) as string[][]).map(row => row[row.indexOf('name') + 1]);
    await until('the idle one is gone', async () => !(await names()).includes('idle'));
    expect(((await store.redis.xinfo('GROUPS', key)) as unknown[]).length).toBe(2);
  });

  it('counts and says once what it can not decode, and goes on', async () => {
    const pubsub = fixture.open({ url: store.server.url });
    const [grouped, fanout] = [recorder(), recorder()];
    await pubsub.subscribe('t', grouped.callback, { group: 'workers' });
    await pubsub.subscribe('t', fanout.callback);
    for (const garbage of ['{', '[]', '"text"', 'null', '']) await store.redis.xadd(key, '*', 'event', garbage);
    await store.redis.xadd(key, '*', 'other', 'field');
    await pubsub.publish('t', newEvent(1));
    await until('the good one arrives', () => grouped.events.length === 1 && fanout.events.length === 1);
    await until('the others are acked', async () => (await pending()) === 0);
    expect(fixture.warnings(/holds no event/)).toHaveLength(2);
  });

  it('counts and says what was trimmed before it was read', async () => {
    const publisher = fixture.open({ url: store.server.url });
    const pubsub = fixture.open({ url: store.server.url, maxInFlight: 1 });
    const release = Promise.withResolvers<void>();
    const seen: number[] = [];
    const slow = async (event: { data: { n: number } }, ack?: () => Promise<void>) => {
      seen.push(event.data.n);
      await release.promise;
      await ack?.();
    };
    await pubsub.subscribe('t', (event, ack) => slow(event, ack), { group: 'workers' });
    await pubsub.subscribe('t', (event, ack) => slow(event, ack));
    for (let n = 0; n < 2000; n++) await publisher.publish('t', newEvent(n));
    await until('both are at work', () => seen.length >= 2);
    await publisher.trimTopic('t', 100);
    release.resolve();
    await until('the newest arrives twice', () => seen.filter(n => n === 1999).length === 2);
    const warnings = fixture.warnings(/trimmed before they were read/);
    expect(new Set(warnings.map(({ fields }) => fields['group']))).toEqual(new Set(['workers', undefined]));
    expect(warnings).toHaveLength(2);
    for (const { fields } of warnings) {
      const delivered = seen.length / 2;
      expect(fields['events']).toBeGreaterThan(0);
      expect(fields['events']).toBeLessThanOrEqual(2000 - 100);
      expect(delivered).toBeLessThan(2000);
    }
  });

  it('does not read on while as many handlers are running as allowed, and goes on when they end', async () => {
    const pubsub = fixture.open({ url: store.server.url, maxInFlight: 10 });
    const releases: (() => void)[] = [];
    let started = 0;
    await pubsub.subscribe(
      't',
      async (_event, ack) => {
        started++;
        await new Promise<void>(resolve => void releases.push(resolve));
        await ack?.();
      },
      { group: 'workers' },
    );
    const other = recorder();
    await pubsub.subscribe('other', other.callback, { group: 'workers' });
    for (let n = 0; n < 3000; n++) void pubsub.publish('t', newEvent(n));
    await pubsub.flush();
    for (let n = 0; n < 100; n++) await pubsub.publish('other', newEvent(n));
    await until('another topic is not held up', () => other.events.length === 100);
    expect(started).toBeLessThan(3000);
    await until('all get their turn', () => {
      for (const release of releases.splice(0)) release();
      return started === 3000;
    });
  });
});
