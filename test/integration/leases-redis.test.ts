import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { originalLeases } from '../support/lease-original.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const ttlMs = 60_000;
const keys = new RedisKeys();
const leaseKey = keys.lease('k').lease;

let server: RedisServer;
let client: Redis;
let provider: RedisLeaseProvider;

beforeAll(async () => {
  server = await startRedis();
  client = new Redis(server.url, { maxRetriesPerRequest: 0 });
  provider = new RedisLeaseProvider(client, keys);
});
beforeEach(async () => void (await client.flushall()));
afterAll(async () => {
  client.disconnect();
  await server.stop();
});

async function tokenOf(key: string, owner: string): Promise<number> {
  return (await provider.acquireLease(key, owner, ttlMs)).fencingToken ?? NaN;
}

describe('each method', () => {
  it('is one command of one script, the refused acquire included', async () => {
    await provider.acquireLease('k', 'a', ttlMs);
    const steps = [
      () => provider.acquireLease('k', 'b', ttlMs),
      () => provider.acquireLease('k', 'a', ttlMs),
      () => provider.renewLease('k', 'a', ttlMs),
      () => provider.renewLeases([{ key: 'k', owner: 'a' }, { key: 'k', owner: 'b' }], ttlMs),
      () => provider.transferLease('k', 'a', 'b', ttlMs),
      () => provider.releaseLease('k', 'b'),
    ];
    for (const step of steps) await step(); // the scripts are there now
    await provider.acquireLease('k', 'a', ttlMs);
    await client.config('RESETSTAT');
    for (const step of steps) await step();
    const stats = await client.info('commandstats');
    expect(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]).toBe(String(steps.length));
    expect(stats).not.toMatch(/cmdstat_eval:/);
  });

  it('works on when the server has forgotten its scripts', async () => {
    for (const step of [
      () => provider.acquireLease('k', 'a', ttlMs),
      () => provider.renewLeases([{ key: 'k', owner: 'a' }], ttlMs),
      () => provider.transferLease('k', 'a', 'b', ttlMs),
      () => provider.releaseLease('k', 'b'),
    ]) {
      await client.script('FLUSH');
      await step();
    }
    expect(await provider.getLeaseOwner('k')).toBeUndefined();
  });

  it('fails with a retryable error when the store is away, and never says acquired (L4)', async () => {
    const nowhere = new Redis({ port: 1, host: '127.0.0.1', lazyConnect: true, enableOfflineQueue: false, retryStrategy: () => null });
    nowhere.on('error', () => {});
    const away = new RedisLeaseProvider(nowhere, keys);
    const unavailable = { code: 'SIG_STORE_UNAVAILABLE', retryable: true };
    await expect(away.acquireLease('k', 'a', ttlMs)).rejects.toMatchObject(unavailable);
    await expect(away.renewLease('k', 'a', ttlMs)).rejects.toMatchObject(unavailable);
    await expect(away.transferLease('k', 'a', 'b', ttlMs)).rejects.toMatchObject(unavailable);
    await expect(away.releaseLease('k', 'a')).rejects.toMatchObject(unavailable);
    await expect(away.getLeaseOwner('k')).rejects.toMatchObject(unavailable);
    expect(await away.renewLeases([{ key: 'k', owner: 'a' }], ttlMs)).toEqual([expect.objectContaining(unavailable)]);
    nowhere.disconnect();
  });

  it('of which the reply was lost may be asked again', async () => {
    const proxy = await startTcpProxy(server.port);
    const lossy = new Redis(proxy.url, { maxRetriesPerRequest: 0, commandTimeout: 300, enableOfflineQueue: true });
    lossy.on('error', () => {});
    const through = new RedisLeaseProvider(lossy, keys);
    try {
      for (const ask of [
        () => through.acquireLease('k', 'a', ttlMs),
        () => through.renewLease('k', 'a', ttlMs),
        () => through.transferLease('k', 'a', 'b', ttlMs),
      ]) {
        await ask().catch(() => {});
        proxy.dropReplies();
        await expect(ask()).rejects.toMatchObject({ code: 'SIG_STORE_UNAVAILABLE' });
        proxy.restore();
        let answer: unknown;
        await until('it is answered', async () => (answer = await ask().catch(() => undefined)));
        expect(answer === true || answer).toBeTruthy();
      }
      expect(await provider.acquireLease('k', 'b', ttlMs)).toMatchObject({ acquired: true });
    } finally {
      lossy.disconnect();
      await proxy.stop();
    }
  });
});

describe('a lease that is handed from run to run and from instance to instance', () => {
  it('is never free for those who ask all the time, and every run has a larger token', async () => {
    const other = new Redis(server.url, { maxRetriesPerRequest: 0 });
    const contender = new RedisLeaseProvider(other, keys);
    const over = new AbortController();
    let refused = 0;
    const contend = async () => {
      while (!over.signal.aborted) {
        expect((await contender.acquireLease('k', 'contender', ttlMs)).acquired).toBe(false);
        refused++;
      }
    };
    const tokens = [await tokenOf('k', 'run-0')];
    const contending = contend();
    for (let run = 1; run <= 300; run++) {
      expect(await provider.transferLease('k', `run-${run - 1}`, `run-${run}`, ttlMs)).toBe(true);
      tokens.push(await tokenOf('k', `run-${run}`));
    }
    over.abort();
    await contending;
    other.disconnect();
    expect(refused).toBeGreaterThan(100);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
  });
});

describe('fencing tokens (L5)', () => {
  it('grow when the lease, its token, the counter or all of the data has gone', async () => {
    const tokens = [await tokenOf('k', 'a')];
    for (const gone of [['lease'], ['lease', 'token'], ['lease', 'fence'], ['lease', 'token', 'fence']] as const) {
      await client.del(...gone.map(part => keys.lease('k')[part]));
      tokens.push(await tokenOf('k', 'b'));
    }
    await client.flushall();
    tokens.push(await tokenOf('k', 'c'));
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
  });

  it('go on from the counter when the clock of the server is behind it', async () => {
    const ahead = 8_000_000_000_000_000;
    await client.set(keys.lease('k').fence, ahead);
    expect(await tokenOf('k', 'a')).toBe(ahead + 1);
    await provider.transferLease('k', 'a', 'b', ttlMs);
    expect(await tokenOf('k', 'b')).toBe(ahead + 2);
  });

  it('are exact to the last digit, and refuse to be given past what a number can hold', async () => {
    const last = 2 ** 53 - 2;
    await client.set(keys.lease('k').fence, last);
    expect(await tokenOf('k', 'a')).toBe(last + 1);
    await provider.releaseLease('k', 'a');
    await expect(provider.acquireLease('k', 'b', ttlMs)).rejects.toThrow('out of range');
    expect(await provider.getLeaseOwner('k')).toBeUndefined();
  });

  it('are there for as long as their lease is renewed, however seldom they are renewed themselves', async () => {
    const held = { key: 'k', owner: 'a' };
    const token = await tokenOf('k', 'a');
    const { token: tokenKey } = keys.lease('k');
    for (let renewal = 0; renewal < 3; renewal++) {
      expect(await provider.renewLeases([held], ttlMs)).toEqual([true]);
      expect(await client.pttl(tokenKey)).toBeGreaterThan(3 * ttlMs);
    }
    // A longer TTL than the token has left is noticed.
    expect(await provider.renewLeases([held], 10 * ttlMs)).toEqual([true]);
    expect(await client.pttl(tokenKey)).toBeGreaterThan(30 * ttlMs);
    expect(await tokenOf('k', 'a')).toBe(token);
    await provider.releaseLease('k', 'a');
    expect(await client.exists(tokenKey)).toBe(0);
  });

  it('that were not renewed because the store was away are renewed when it is back', async () => {
    const held = { key: 'k', owner: 'a' };
    await tokenOf('k', 'a');
    const proxied = await startTcpProxy(server.port);
    const lossy = new Redis(proxied.url, { maxRetriesPerRequest: 0, commandTimeout: 200 });
    lossy.on('error', () => {});
    const through = new RedisLeaseProvider(lossy, keys);
    await lossy.ping();
    proxied.down();
    await until('it fails', async () => (await through.renewLeases([held], ttlMs))[0] instanceof Error);
    expect(await client.pttl(keys.lease('k').token)).toBeLessThanOrEqual(ttlMs);
    proxied.restore();
    await until('it is renewed', async () => (await through.renewLeases([held], ttlMs))[0] === true);
    expect(await client.pttl(keys.lease('k').token)).toBeGreaterThan(3 * ttlMs);
    lossy.disconnect();
    await proxied.stop();
  });

  it('need one counter a slot, which goes by itself after days', async () => {
    const threads = Array.from({ length: 2000 }, (_, at) => `thread:{p${at % 64}}:r:${at}`);
    await Promise.all(threads.map(key => provider.acquireLease(key, 'a', ttlMs)));
    await Promise.all(threads.map(key => provider.releaseLease(key, 'a')));
    const left = await client.keys('*');
    expect(left).toHaveLength(64);
    for (const key of left.slice(0, 5)) expect(await client.ttl(key)).toBeGreaterThan(86_400);
  });
});

describe("processes of the original's protocol on the same keys", () => {
  const original = () => originalLeases(client, keys.prefix);

  it('see our leases as theirs: the owner is all that is in the key', async () => {
    await provider.acquireLease('k', 'pod/run', ttlMs);
    expect(await client.get(leaseKey)).toBe('pod/run');
    await original().acquire('k', 'theirs', ttlMs);
    expect(await provider.getLeaseOwner('k')).toBe('pod/run');
    await original().renew('k', 'pod/run', 2 * ttlMs);
    expect(await client.pttl(leaseKey)).toBeGreaterThan(1.5 * ttlMs);
  });

  it('hold leases that we respect, and that get a token when their owner comes to us', async () => {
    const before = await tokenOf('k', 'a');
    await provider.releaseLease('k', 'a');
    await original().acquire('k', 'theirs', ttlMs);
    expect(await provider.acquireLease('k', 'a', ttlMs)).toEqual({ acquired: false, owner: 'theirs' });
    expect(await provider.renewLease('k', 'theirs', ttlMs)).toBe(true);
    const token = await tokenOf('k', 'theirs');
    expect(token).toBeGreaterThan(before);
    expect(await tokenOf('k', 'theirs')).toBe(token);
    expect(await provider.transferLease('k', 'theirs', 'a', ttlMs)).toBe(true);
    expect(await tokenOf('k', 'a')).toBeGreaterThan(token);
  });
});
