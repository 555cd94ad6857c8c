/** Whoever unsubscribed in the middle of a batch took the rest of it along: it waited for the idle limit. */

import { describe, expect, it } from 'vitest';

import type { EventCallback } from '../../src/contracts/pubsub.ts';
import { newEvent, numberOf, oneRedis, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { until } from '../support/until.ts';

describe('unsubscribing during the first entry of a batch', () => {
  const fixture = new StreamsFixture();
  const store = oneRedis(fixture);

  it.each(['after', 'before'])('gives a replacement that subscribed %s it the other nine at once and in order', async when => {
    const [leaving, staying] = [fixture.open({ url: store.server.url }), fixture.open({ url: store.server.url })];
    for (let n = 0; n < 10; n++) await leaving.publish('batch', newEvent(n));
    const handled: number[] = [];
    const left = Promise.withResolvers<void>();
    const once: EventCallback = async (event, ack) => {
      handled.push(numberOf(event));
      left.resolve(leaving.unsubscribe('batch', once));
      await ack?.();
    };
    const replacement = recorder();
    await leaving.subscribe('batch', once, { group: 'workers' });
    if (when === 'before') await staying.subscribe('batch', replacement.callback, { group: 'workers' });
    await left.promise;
    if (when === 'after') await staying.subscribe('batch', replacement.callback, { group: 'workers' });
    await until('the replacement has the rest', () => handled.length + replacement.events.length >= 10, 5000);
    expect(handled).toEqual([0]);
    expect(replacement.numbers()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(replacement.events.every(({ deliveryAttempt }) => deliveryAttempt === 1)).toBe(true);
    await until('nothing is pending', async () => (await store.redis.xpending('mastra:topic:batch', 'workers'))[0] === 0);
  });

  it('hands entries to siblings at once even when the group has read on', async () => {
    const [leaving, staying] = [fixture.open({ url: store.server.url }), fixture.open({ url: store.server.url })];
    const [first, second] = [recorder(), recorder()];
    // A batch that is never full holds what was read; the group reads on meanwhile.
    await leaving.subscribe('held', first.callback, { group: 'workers', batch: { maxSize: 1000 } });
    for (let n = 0; n < 5; n++) await leaving.publish('held', newEvent(n));
    await until('they are held', async () => (await store.redis.xpending('mastra:topic:held', 'workers'))[0] === 5);
    await staying.subscribe('held', second.callback, { group: 'workers' });
    await until('the group has read on', async () => {
      await staying.publish('held', newEvent(100));
      return second.events.length > 0;
    });
    await leaving.unsubscribe('held', first.callback);
    await until('the sibling has them', () => [0, 1, 2, 3, 4].every(n => second.numbers().includes(n)), 5000);
    expect(first.events).toHaveLength(0);
  });

  it('leaves neither consumer nor pending entries behind', async () => {
    const pubsub = fixture.open({ url: store.server.url });
    const { callback, events } = recorder();
    await pubsub.subscribe('left', callback, { group: 'workers' });
    await pubsub.publish('left', newEvent(1));
    await until('it is handled', () => events.length === 1);
    await pubsub.unsubscribe('left', callback);
    await until('the consumer is gone', async () => ((await store.redis.xinfo('CONSUMERS', 'mastra:topic:left', 'workers')) as unknown[]).length === 0);
    const fanout = recorder();
    await pubsub.subscribe('left', fanout.callback);
    await until('it is handled', () => fanout.events.length === 1);
    await pubsub.close();
    expect(((await store.redis.xinfo('GROUPS', 'mastra:topic:left')) as unknown[]).length).toBe(1);
  });
});
