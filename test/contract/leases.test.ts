import { EventEmitterPubSub } from '@mastra/core/events';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { NoopLeaseProvider } from '../../src/contracts/lease-provider.ts';
import { MemoryLeaseProvider } from '../../src/memory/memory-leases.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { leaseContract } from '../support/lease-contract.ts';
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
  "the peer's in-process backend",
  async () => {
    const provider = new EventEmitterPubSub();
    const runOut = (key: string) => until(`${key} ran out`, async () => (await provider.getLeaseOwner(key)) === undefined);
    return { provider, runOut, close: () => provider.close() };
  },
  { tokens: false, repeatsTransfer: false },
);

describe('with a Redis', () => {
  let server: RedisServer;
  let client: Redis;
  let prefixes = 0;

  beforeAll(async () => {
    server = await startRedis();
    client = new Redis(server.url, { maxRetriesPerRequest: 0 });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  leaseContract(
    'Redis',
    async () => {
      const provider = new RedisLeaseProvider(client, new RedisKeys(`contract-${prefixes++}`));
      const runOut = (key: string) => until(`${key} ran out`, async () => (await provider.getLeaseOwner(key)) === undefined);
      return { provider, runOut, close };
    },
    { tokens: true, repeatsTransfer: true },
  );
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
