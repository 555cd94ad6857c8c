import { afterEach, beforeEach, expect, it } from 'vitest';

import { systemClock } from '../../src/core/clock.ts';
import { acquire } from '../../src/leases/acquire.ts';
import { LeaseKeeper } from '../../src/leases/lease-keeper.ts';
import { RedisConnector } from '../../src/redis/connection.ts';
import type { RedisClient } from '../../src/redis/connection.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { startRedisSentinels } from '../support/redis-sentinel.ts';
import type { RedisSentinels } from '../support/redis-sentinel.ts';
import { until } from '../support/until.ts';

const settings = { ttlMs: 15_000, renewIntervalMs: 1000, driftMs: 650 };
const names = Array.from({ length: 50 }, (_, at) => `thread:{p${at % 8}}:r:${at}`);

let sentinels: RedisSentinels;
let client: RedisClient;
let provider: RedisLeaseProvider;
let keeper: LeaseKeeper;
const renewals = new Map<string, number>();

beforeEach(async () => {
  sentinels = await startRedisSentinels(2);
  const redisOptions = { sentinels: sentinels.sentinels, name: sentinels.name };
  client = new RedisConnector({ redisOptions }, { commandTimeoutMs: 1500 }).open('commands');
  await client.connect();
  provider = new RedisLeaseProvider(client, new RedisKeys(), { replicaAcks: 1 });
  const observer = {
    held() {},
    renewed: (key: string) => void renewals.set(key, (renewals.get(key) ?? 0) + 1),
    ended() {},
  };
  keeper = new LeaseKeeper({ provider, settings: () => settings, observer });
});
afterEach(async () => {
  keeper.close();
  client.disconnect();
  await sentinels.stop();
});

it('leases that replicas confirmed are held on over a failover, and nobody else gets them', async () => {
  const grants = await Promise.all(
    names.map(key => acquire(provider, key, 'a/1', settings.ttlMs, systemClock, settings.driftMs)),
  );
  const held = grants.map(grant => keeper.hold(grant!));
  await sentinels.failOver();
  renewals.clear();
  await until('each is renewed at the new primary', () => names.every(key => (renewals.get(key) ?? 0) > 0));
  expect(held.filter(({ signal }) => signal.aborted)).toEqual([]);
  const others = await persistently(() => Promise.all(names.map(key => provider.acquireLease(key, 'b/1', settings.ttlMs))));
  expect(others.map(({ owner }) => owner)).toEqual(names.map(() => 'a/1'));

  const largest = Math.max(...grants.map(grant => grant?.fencingToken ?? NaN));
  for (const each of held) each.drop('released');
  await persistently(() => Promise.all(names.map(key => provider.releaseLease(key, 'a/1'))));
  const next = await persistently(() => Promise.all(names.map(key => provider.acquireLease(key, 'b/1', settings.ttlMs))));
  for (const { fencingToken } of next) expect(fencingToken).toBeGreaterThan(largest);
});

/** The connection may break once more while the servers sort themselves out. */
async function persistently<T>(ask: () => Promise<T>): Promise<T> {
  let answer: T | undefined;
  await until('the store answers', async () => (answer = await ask().catch(() => undefined)) !== undefined);
  return answer as T;
}
