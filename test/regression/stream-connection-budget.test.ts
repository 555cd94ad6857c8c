/** A connection for each subscription: at a few thousand topics the server ran out of them. */

import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';

import { startRedisCluster } from '../support/redis-cluster.ts';
import type { RedisCluster } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';
import { newEvent, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { until } from '../support/until.ts';

/** The documented budget, per node, leases included. */
const budget = 4;

/** All that the node has but the one that asks, and those of the test's own administration. */
async function connectionsOf(port: number): Promise<number> {
  const redis = new Redis(port, '127.0.0.1');
  const list = String(await redis.client('LIST')).trim().split('\n');
  redis.disconnect();
  return list.length - 1;
}

describe('2,000 subscriptions', () => {
  const fixture = new StreamsFixture();
  afterEach(() => fixture.closeAll());

  it('stay within the connection budget, and all of them get their events', async () => {
    const server = await startRedis();
    const pubsub = fixture.open({ url: server.url });
    const { callback, events } = recorder();
    await Promise.all(
      Array.from({ length: 2000 }, (_, at) => pubsub.subscribe(`t${at}`, callback, at % 2 === 0 ? { group: 'workers' } : {})),
    );
    await pubsub.acquireLease('k', 'me', 10_000);
    for (let at = 0; at < 2000; at++) await pubsub.publish(`t${at}`, newEvent(at));
    await until('all have their event', () => events.length === 2000);
    expect(await connectionsOf(server.port)).toBe(budget);
    await fixture.closeAll();
    await until('none is left', async () => (await connectionsOf(server.port)) === 0);
    await server.stop();
  });

  it('stay within it on each node of a Cluster', async () => {
    const cluster: RedisCluster = await startRedisCluster();
    const before = await Promise.all(cluster.nodes.map(node => connectionsOf(node.port)));
    const pubsub = fixture.open({ cluster: { nodes: cluster.seeds } });
    const { callback, events } = recorder();
    await Promise.all(Array.from({ length: 2000 }, (_, at) => pubsub.subscribe(`t${at}`, callback, at % 2 === 0 ? { group: 'workers' } : {})));
    await pubsub.acquireLease('k', 'me', 10_000);
    for (let at = 0; at < 2000; at++) await pubsub.publish(`t${at}`, newEvent(at));
    await until('all have their event', () => events.length === 2000);
    const after = await Promise.all(cluster.nodes.map(node => connectionsOf(node.port)));
    for (const [at, count] of after.entries()) expect(count - (before[at] ?? 0)).toBeLessThanOrEqual(budget);
    await fixture.closeAll();
    await cluster.stop();
  });
});
