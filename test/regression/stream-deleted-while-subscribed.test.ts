/** A stream that vanished under its subscribers left them deaf, or made them ask the server without a pause. */

import { describe, expect, it } from 'vitest';

import { newEvent, oneRedis, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { until } from '../support/until.ts';

describe('a stream that vanishes while subscribed', () => {
  const fixture = new StreamsFixture();
  const store = oneRedis(fixture);
  const key = 'mastra:topic:gone';

  const errorsSoFar = async () => Number(/errorstat_NOGROUP:count=(\d+)/.exec(await store.redis.info('errorstats'))?.[1] ?? 0);

  const subscribed = async () => {
    const [pubsub, publisher] = [fixture.open({ url: store.server.url }), fixture.open({ url: store.server.url })];
    const [grouped, fanout] = [recorder(), recorder()];
    await pubsub.subscribe('gone', grouped.callback, { group: 'workers' });
    await pubsub.subscribe('gone', fanout.callback);
    await publisher.publish('gone', newEvent(1));
    await until('both have it', () => grouped.events.length === 1 && fanout.events.length === 1);
    return { publisher, grouped, fanout };
  };

  it.each([
    ['deleted', () => store.redis.del(key)],
    ['expired', () => store.redis.pexpire(key, 1)],
    ['flushed with everything else', () => store.redis.flushall()],
    ['replaced by another', async () => {
      await store.redis.multi().del(key).xadd(key, '*', 'event', JSON.stringify({ ...newEvent(50), id: 'x', createdAt: new Date() })).exec();
    }],
  ])('is %s: what is published after it is delivered, and errors stay few', async (_how, vanish) => {
    const { publisher, grouped, fanout } = await subscribed();
    const before = await errorsSoFar();
    await vanish();
    await until('it has gone', async () => {
      const [first] = await store.redis.xrange(key, '-', '+');
      return !first?.[1][1]?.includes('"n":1');
    });
    for (let n = 2; n < 12; n++) await publisher.publish('gone', newEvent(n));
    const later = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    await until('both have the later ones', () => [grouped, fanout].every(({ numbers }) => later.every(n => numbers().includes(n))));
    for (const { numbers } of [grouped, fanout]) expect(numbers().filter(n => later.includes(n))).toEqual(later);
    expect((await errorsSoFar()) - before).toBeLessThan(10);
  });

  it('is cleared by this very process while events go on: none that was published later is missed', async () => {
    const { publisher, grouped, fanout } = await subscribed();
    for (let round = 0; round < 20; round++) {
      const seen = [grouped.events.length, fanout.events.length];
      await publisher.clearTopic('gone');
      await publisher.publish('gone', newEvent(100 + round));
      await until(`round ${round} arrives`, () => grouped.events.length > (seen[0] ?? 0) && fanout.events.length > (seen[1] ?? 0));
    }
  });

  it('leaves no empty stream behind when nobody writes to it again', async () => {
    await subscribed();
    await store.redis.del(key);
    const bystander = fixture.open({ url: store.server.url });
    const probe = recorder();
    await bystander.subscribe('probe', probe.callback, { group: 'workers' });
    for (let n = 0; n < 20; n++) await bystander.publish('probe', newEvent(n));
    await until('others have been served meanwhile', () => probe.events.length === 20);
    expect(await store.redis.exists(key)).toBe(0);
  });

  it('comes back with only its group gone: the group goes on behind what it had read', async () => {
    const { publisher, grouped } = await subscribed();
    await store.redis.xgroup('DESTROY', key, 'workers');
    await publisher.publish('gone', newEvent(2));
    await until('the next is handled', () => grouped.events.length === 2);
    expect(grouped.numbers()).toEqual([1, 2]);
  });
});
