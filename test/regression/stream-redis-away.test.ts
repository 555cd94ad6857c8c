/** Redis gone for a while: publishes that never settle, memory that grows, readers that stay deaf, a close that hangs. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { newEvent, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { until } from '../support/until.ts';

describe('with Redis away', () => {
  let server: RedisServer;
  const fixture = new StreamsFixture();

  beforeEach(async () => {
    server = await startRedis({ config: ['appendonly yes', 'appendfsync always'] });
  });
  afterEach(async () => {
    await fixture.closeAll();
    await server.stop();
  });

  it('a publish fails within its limit, and everything goes on by itself when Redis is back', async () => {
    const pubsub = fixture.open({ url: server.url, commandTimeoutMs: 1000 });
    const [grouped, fanout] = [recorder(), recorder()];
    await pubsub.subscribe('t', grouped.callback, { group: 'workers' });
    await pubsub.subscribe('t', fanout.callback);
    await pubsub.publish('t', newEvent(1));
    await until('both have it', () => grouped.events.length === 1 && fanout.events.length === 1);
    await server.kill('SIGKILL');
    await expect(pubsub.publish('t', newEvent(2))).rejects.toMatchObject({ code: 'SIG_STORE_UNAVAILABLE', retryable: true });
    await server.restart();
    await until('publishing works again', async () => {
      await pubsub.publish('t', newEvent(3)).catch(() => {});
      return grouped.numbers().includes(3) && fanout.numbers().includes(3);
    });
  });

  it('a publish that can wait out a short absence succeeds', async () => {
    const pubsub = fixture.open({ url: server.url, commandTimeoutMs: 20_000 });
    const { callback, numbers } = recorder();
    await pubsub.subscribe('t', callback, { group: 'workers' });
    await server.kill('SIGKILL');
    const published = Promise.all([1, 2, 3].map(n => pubsub.publish('t', newEvent(n))));
    await server.restart();
    await published;
    await until('they arrive', () => numbers().length === 3);
    expect(numbers()).toEqual([1, 2, 3]);
  });

  it('callers are told at once after a while, and what waits is bounded by count', async () => {
    const pubsub = fixture.open({ url: server.url, commandTimeoutMs: 300, maxQueuedPublishes: 50 });
    await pubsub.publish('t', newEvent(0));
    await server.kill('SIGKILL');
    await until('the connection is known to be gone', async () => {
      const failure: unknown = await pubsub.publish('t', newEvent(0)).catch((error: unknown) => error);
      return failure instanceof Error;
    });
    const burst = Array.from({ length: 500 }, (_, n) => pubsub.publish('t', newEvent(n)));
    const outcomes = await Promise.allSettled(burst);
    const refusals = outcomes.map(outcome => (outcome.status === 'rejected' ? String(outcome.reason) : outcome.status));
    expect(refusals.filter(text => text.includes('publishes are waiting for Redis already')).length).toBeGreaterThanOrEqual(450);
    expect(refusals).not.toContain('fulfilled');
    await until('Redis has been away for longer than a publish may wait', async () => {
      const failure = await pubsub.publish('t', newEvent(0)).catch((error: unknown) => error as Error);
      return failure instanceof Error && failure.message.includes('has been away');
    });
    const startMs = performance.now();
    for (let n = 0; n < 1000; n++) await pubsub.publish('t', newEvent(n)).catch(() => {});
    // A thousand limits in a row would have taken five minutes.
    expect(performance.now() - startMs).toBeLessThan(30_000);
  });

  it('a subscription fails within its limit and leaves nothing behind', async () => {
    const pubsub = fixture.open({ url: server.url, commandTimeoutMs: 300 });
    const { callback, events } = recorder();
    await server.kill('SIGKILL');
    await expect(pubsub.subscribe('t', callback, { group: 'workers' })).rejects.toMatchObject({ code: 'SIG_STORE_UNAVAILABLE' });
    await expect(pubsub.subscribe('t', callback)).rejects.toMatchObject({ code: 'SIG_STORE_UNAVAILABLE' });
    await server.restart();
    await until('it can be tried again', async () =>
      pubsub.subscribe('t', callback, { group: 'workers' }).then(
        () => true,
        () => false,
      ),
    );
    await pubsub.publish('t', newEvent(1));
    await until('and works', () => events.length === 1);
  });

  it.each([
    ['that never was there', false],
    ['that went', true],
  ])('close ends within its limit with a Redis %s', async (_which, connected) => {
    const pubsub = fixture.open({ url: server.url, closeTimeoutMs: 500, commandTimeoutMs: 60_000 });
    const { callback } = recorder();
    if (connected) await pubsub.subscribe('t', callback, { group: 'workers' });
    await server.kill('SIGKILL');
    const publishing = pubsub.publish('t', newEvent(1)).catch((error: unknown) => error);
    const subscribing = pubsub.subscribe('u', callback).catch((error: unknown) => error);
    await pubsub.close();
    expect(await publishing).toMatchObject({ code: 'SIG_STORE_UNAVAILABLE' });
    expect(await subscribing).toMatchObject({ code: 'SIG_STORE_UNAVAILABLE' });
  });

  it('close ends within its limit when the server has stopped answering', async () => {
    const pubsub = fixture.open({ url: server.url, closeTimeoutMs: 500, commandTimeoutMs: 60_000 });
    const { callback, events } = recorder();
    await pubsub.subscribe('t', callback, { group: 'workers' });
    await pubsub.publish('t', newEvent(1));
    await until('it is connected', () => events.length === 1);
    server.pause();
    const publishing = pubsub.publish('t', newEvent(2)).catch((error: unknown) => error);
    await pubsub.close();
    server.resume();
    expect(await publishing).toMatchObject({ code: 'SIG_STORE_UNAVAILABLE' });
  });
});
