import { EventEmitterPubSub } from '@mastra/core/events';
import { Cluster, Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { NoopLeaseProvider } from '../../src/contracts/lease-provider.ts';
import { MemoryLeaseProvider } from '../../src/memory/memory-leases.ts';
import type { RedisClient } from '../../src/redis/connection.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import type { RedisLeaseOptions } from '../../src/redis/leases.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { leaseContract } from '../support/lease-contract.ts';
import { PlainLeases } from '../support/lease-plain.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import type { RedisCluster } from '../support/redis-cluster.ts';
import { startRedisSentinels } from '../support/redis-sentinel.ts';
import type { RedisSentinels } from '../support/redis-sentinel.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const close = () => Promise.resolve();

leaseContract(
  'memory',
  async () => {
    const clock = new FakeClock();
    return { provider: new MemoryLeaseProvider(clock), runOut: (_key, ttlMs) => clock.advance(ttlMs), close };
  },
  { tokens: true, repeatsTransfer: true },
);

leaseContract(
  'a store that cannot hand over in one step',
  async () => {
    const clock = new FakeClock();
    const provider = new PlainLeases(new MemoryLeaseProvider(clock));
    return { provider, runOut: (_key, ttlMs) => clock.advance(ttlMs), close };
  },
  { tokens: false, repeatsTransfer: true },
);

leaseContract(
  "the peer's in-process backend",
  async () => {
    const provider = new EventEmitterPubSub();
    const runOut = (key: string) => until(`${key} ran out`, async () => (await provider.getLeaseOwner(key)) === undefined);
    return { provider, runOut, close: () => provider.close() };
  },
  { tokens: false, repeatsTransfer: false },
);

let prefixes = 0;

async function fixtureOf(client: RedisClient, options?: RedisLeaseOptions) {
  const provider = new RedisLeaseProvider(client, new RedisKeys(`contract-${prefixes++}`), options);
  const runOut = (key: string) => until(`${key} ran out`, async () => (await provider.getLeaseOwner(key)) === undefined);
  return { provider, runOut, close };
}

describe('with a Redis', () => {
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis();
    client = new Redis(server.url, { maxRetriesPerRequest: 0 });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  leaseContract('Redis', () => fixtureOf(client), { tokens: true, repeatsTransfer: true });
});

describe('with Sentinels and a replica', () => {
  let sentinels: RedisSentinels;
  let client: Redis;

  beforeAll(async () => {
    sentinels = await startRedisSentinels();
    client = new Redis({ sentinels: sentinels.sentinels, name: sentinels.name, maxRetriesPerRequest: 0 });
  });
  afterAll(async () => {
    client.disconnect();
    await sentinels.stop();
  });

  leaseContract('Redis with Sentinels', () => fixtureOf(client), { tokens: true, repeatsTransfer: true });
  leaseContract('Redis with confirmation by a replica', () => fixtureOf(client, { replicaAcks: 1 }), {
    tokens: true,
    repeatsTransfer: true,
  });
});

describe('with a Cluster', () => {
  let cluster: RedisCluster;
  let client: Cluster;

  beforeAll(async () => {
    cluster = await startRedisCluster();
    client = new Cluster(cluster.seeds, { redisOptions: { maxRetriesPerRequest: 0 } });
  });
  afterAll(async () => {
    client.disconnect();
    await cluster.stop();
  });

  leaseContract('Redis Cluster', () => fixtureOf(client), { tokens: true, repeatsTransfer: true });

  it('a key whose companions would be in another slot is refused, by name', async () => {
    const { provider } = await fixtureOf(client);
    await expect(provider.acquireLease('a}b', 'a', 1000)).rejects.toThrow('lease key must be without "}" in a Cluster');
    expect(await provider.acquireLease('a}b{t}', 'a', 1000)).toMatchObject({ acquired: true });
  });
});

describe('no leases', () => {
  it('everyone gets everything, and nothing is ever lost', async () => {
    expect(await NoopLeaseProvider.acquireLease('k', 'a', 1000)).toEqual({ acquired: true, owner: 'a' });
    expect(await NoopLeaseProvider.acquireLease('k', 'b', 1000)).toEqual({ acquired: true, owner: 'b' });
    expect(await NoopLeaseProvider.getLeaseOwner('k')).toBeUndefined();
    expect(await NoopLeaseProvider.renewLease('k', 'c', 1000)).toBe(true);
    expect(await NoopLeaseProvider.transferLease('k', 'c', 'd', 1000)).toBe(true);
    await NoopLeaseProvider.releaseLease('k', 'c');
  });
});
