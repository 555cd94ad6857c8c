/** A failover left subscribers at a server that was no primary any more. */

import { afterEach, describe, it } from 'vitest';

import { startRedisSentinels } from '../support/redis-sentinel.ts';
import { newEvent, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { until } from '../support/until.ts';

describe('a failover behind Sentinel', () => {
  const fixture = new StreamsFixture();
  afterEach(() => fixture.closeAll());

  it('to a replica: publishing and reading go on at the new primary, and at the next', async () => {
    const redis = await startRedisSentinels();
    const pubsub = fixture.open({ redisOptions: { sentinels: redis.sentinels, name: redis.name }, blockMs: 100 });
    const [grouped, fanout] = [recorder(), recorder()];
    await pubsub.subscribe('t', grouped.callback, { group: 'workers' });
    await pubsub.subscribe('t', fanout.callback);
    const arrives = async (n: number) =>
      until(`event ${n} arrives`, async () => {
        await pubsub.publish('t', newEvent(n)).catch(() => {});
        return grouped.numbers().includes(n) && fanout.numbers().includes(n);
      });
    await arrives(1);
    const old = await redis.failOver();
    await arrives(2);
    await old.restart();
    await until('the old primary is a replica again', async () => (await redis.primary()) !== old);
    await arrives(3);
    await fixture.closeAll();
    await redis.stop();
  });
});
