/** What a primary that dies takes with it, and what `replicaAcks` makes of that. */

import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const keys = new RedisKeys();
const ttlMs = 60_000;

let primary: RedisServer;
let replica: RedisServer;
/** Between primary and replica. */
let link: TcpProxy;
let client: Redis;
let replicaClient: Redis;
const clients: Redis[] = [];

function connect(server: RedisServer): Redis {
  const redis = new Redis(server.url, { maxRetriesPerRequest: 0, enableOfflineQueue: false, lazyConnect: true });
  redis.on('error', () => {});
  clients.push(redis);
  return redis;
}

beforeEach(async () => {
  primary = await startRedis({ config: ['repl-diskless-sync-delay 0'] });
  link = await startTcpProxy(primary.port);
  replica = await startRedis({ config: [`replicaof 127.0.0.1 ${link.port}`] });
  client = connect(primary);
  replicaClient = connect(replica);
  await Promise.all([client.connect(), replicaClient.connect()]);
  await until('the replica follows', async () => {
    await client.set('something', 'to follow');
    return (await client.wait(1, 500)) === 1;
  });
});
afterEach(async () => {
  for (const each of clients.splice(0)) each.disconnect();
  await replica.stop();
  await link.stop();
  await primary.stop();
});

const confirming = (replicaAckTimeoutMs = 4000) =>
  new RedisLeaseProvider(client, keys, { replicaAcks: 1, replicaAckTimeoutMs });

describe('with replicaAcks', () => {
  it('a lease that is acquired is on the replica', async () => {
    const provider = confirming();
    const { acquired, fencingToken } = await provider.acquireLease('k', 'a', ttlMs);
    expect(acquired).toBe(true);
    expect(await replicaClient.get(keys.lease('k').lease)).toBe('a');
    expect(await replicaClient.get(keys.lease('k').token)).toBe(String(fencingToken));
    expect(await replicaClient.get(keys.lease('k').fence)).toBe(String(fencingToken));
    expect(await provider.renewLease('k', 'a', 2 * ttlMs)).toBe(true);
    expect(await replicaClient.pttl(keys.lease('k').lease)).toBeGreaterThan(1.5 * ttlMs);
    expect(await provider.transferLease('k', 'a', 'b', ttlMs)).toBe(true);
    expect(await replicaClient.get(keys.lease('k').lease)).toBe('b');
  });

  it('a lease that the replica has not got is given back and counts as not acquired', async () => {
    link.blackHole();
    const provider = confirming(100);
    expect(await provider.acquireLease('k', 'a', ttlMs)).toEqual({ acquired: false });
    expect(await provider.getLeaseOwner('k')).toBeUndefined();
  });

  it('a renewal, a refresh and a hand-over that the replica has not got are errors, and a plain no is a no', async () => {
    const unconfirmed = new RedisLeaseProvider(client, keys);
    await unconfirmed.acquireLease('k', 'a', ttlMs);
    await unconfirmed.acquireLease('other', 'b', ttlMs);
    const provider = confirming(100);
    link.blackHole();
    const unavailable = { code: 'SIG_STORE_UNAVAILABLE', retryable: true };
    await expect(provider.renewLease('k', 'a', ttlMs)).rejects.toMatchObject(unavailable);
    await expect(provider.acquireLease('k', 'a', ttlMs)).rejects.toMatchObject(unavailable);
    expect(await provider.getLeaseOwner('k')).toBe('a');
    const leases = [{ key: 'k', owner: 'a' }, { key: 'other', owner: 'a' }];
    expect(await provider.renewLeases(leases, ttlMs)).toEqual([expect.objectContaining(unavailable), false]);
    expect(await provider.acquireLease('other', 'a', ttlMs)).toEqual({ acquired: false, owner: 'b' });
    await expect(provider.transferLease('k', 'a', 'b', ttlMs)).rejects.toMatchObject(unavailable);
  });

  it('many that ask together share a confirmation', async () => {
    const provider = confirming();
    await provider.acquireLease('warm', 'a', ttlMs);
    await client.config('RESETSTAT');
    const count = 2000;
    const answers = await Promise.all(Array.from({ length: count }, (_, at) => provider.acquireLease(`k${at}`, 'a', ttlMs)));
    expect(answers.every(({ acquired }) => acquired)).toBe(true);
    const waits = Number(/cmdstat_wait:calls=(\d+)/.exec(await client.info('commandstats'))?.[1]);
    expect(waits).toBeLessThanOrEqual(count / 100);
  });

  it('those that are too many to wait for a replica that is away are told so at once', async () => {
    link.blackHole();
    const provider = confirming(300);
    const asked = Array.from({ length: 5000 }, (_, at) => provider.acquireLease(`k${at}`, 'a', ttlMs));
    await expect(asked.at(-1)).rejects.toMatchObject({ code: 'SIG_STORE_UNAVAILABLE', retryable: true });
    client.disconnect(); // the others are not waited for
    const answers = await Promise.allSettled(asked);
    expect(answers.filter(answer => answer.status === 'fulfilled' && answer.value.acquired)).toEqual([]);
  });

  it('works on when the server has forgotten its scripts', async () => {
    const provider = confirming();
    await provider.acquireLease('k', 'a', ttlMs);
    await client.script('FLUSH');
    expect(await provider.acquireLease('k2', 'a', ttlMs)).toMatchObject({ acquired: true });
  });

  it('a nonsensical number is refused', () => {
    expect(() => new RedisLeaseProvider(client, keys, { replicaAcks: -1 })).toThrow('replicaAcks must be a whole number');
    expect(() => new RedisLeaseProvider(client, keys, { replicaAckTimeoutMs: 0 })).toThrow('replicaAckTimeoutMs');
  });
});

/** Asks for leases as fast as it can until the primary dies. Answers what was acknowledged. */
async function acquireUntilDeath(provider: RedisLeaseProvider): Promise<Map<string, string>> {
  const acknowledged = new Map<string, string>();
  let dead = false;
  const worker = async (name: number) => {
    for (let n = 0; !dead; n++) {
      const key = `k-${name}-${n}`;
      try {
        const { acquired } = await provider.acquireLease(key, `owner-${name}-${n}`, ttlMs);
        if (acquired) acknowledged.set(key, `owner-${name}-${n}`);
      } catch {
        dead = true;
      }
    }
  };
  const workers = Array.from({ length: 64 }, (_, name) => worker(name));
  await until('a good deal is acknowledged', () => acknowledged.size > 3000);
  await primary.kill('SIGKILL');
  await Promise.all(workers);
  return acknowledged;
}

async function lostOn(survivor: Redis, acknowledged: ReadonlyMap<string, string>): Promise<number> {
  const names = [...acknowledged.keys()];
  const values = await survivor.mget(names.map(key => keys.lease(key).lease));
  return names.filter((key, at) => values[at] !== acknowledged.get(key)).length;
}

describe('a primary that is killed under load', () => {
  it('takes none of the acknowledged leases with it, with replicaAcks', async () => {
    const acknowledged = await acquireUntilDeath(confirming());
    await replicaClient.replicaof('NO', 'ONE');
    expect(await lostOn(replicaClient, acknowledged)).toBe(0);
  });

  it('takes some with it without, when its replica lags', async () => {
    const provider = new RedisLeaseProvider(client, keys);
    link.delay(200);
    const acknowledged = await acquireUntilDeath(provider);
    link.cut();
    await replicaClient.replicaof('NO', 'ONE');
    expect(await lostOn(replicaClient, acknowledged)).toBeGreaterThan(0);
  });
});
