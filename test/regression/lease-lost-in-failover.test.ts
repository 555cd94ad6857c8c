/** A primary that is cut off, or dies, with leases that no replica has, under real sentinels (case 9). */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { FencedDatabase, StaleTokenError } from '../../deploy/examples/fenced-writes/fenced-database.ts';
import { systemClock } from '../../src/core/clock.ts';
import { acquire } from '../../src/leases/acquire.ts';
import { LeaseKeeper } from '../../src/leases/lease-keeper.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import type { RedisLeaseOptions } from '../../src/redis/leases.ts';
import { originalLeases } from '../support/lease-original.ts';
import { startRedisSentinels } from '../support/redis-sentinel.ts';
import type { RedisSentinels } from '../support/redis-sentinel.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

/** Longer than sentinels take to find that the primary has gone and to agree on another. */
const ttlMs = 9000;
const settings = { ttlMs, renewIntervalMs: 1000, driftMs: 590 };
const key = 'thread:{p1}:r:t';

let sentinels: RedisSentinels;
/** Between the first primary and everybody else. */
let link: TcpProxy;
let primary: RedisServer;
let replica: RedisServer;
let directory: string;
const closing: (() => void)[] = [];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'signals-failover-'));
  sentinels = await startRedisSentinels(1, 3, async first => (link = await startTcpProxy(first.port)).port);
  [primary, replica] = sentinels.servers as [RedisServer, RedisServer];
  const client = connect(primary);
  await until('the replica follows', async () => {
    await client.set('something', 'to follow');
    return (await client.wait(1, 500)) === 1;
  });
});
afterEach(async () => {
  for (const close of closing.splice(0)) close();
  await sentinels.stop();
  await link.stop();
  rmSync(directory, { recursive: true, force: true });
});

function connect(server: RedisServer): Redis {
  const client = new Redis(server.url, { maxRetriesPerRequest: 0, commandTimeout: 2500 });
  client.on('error', () => {});
  closing.push(() => client.disconnect());
  return client;
}

/** An instance that holds the thread, with the database that its agent writes to. */
async function ownerOn(server: RedisServer, owner: string, options: RedisLeaseOptions = {}) {
  const provider = new RedisLeaseProvider(connect(server), new RedisKeys(), options);
  const grant = await acquire(provider, key, owner, ttlMs, systemClock, settings.driftMs);
  if (!grant) return undefined;
  const keeper = new LeaseKeeper({ provider, settings: () => settings });
  closing.push(() => keeper.close());
  const database = new FencedDatabase(join(directory, 'orders.db'));
  closing.push(() => database.close());
  const write = (item: string) => database.addOrder('t', grant.fencingToken ?? NaN, item);
  return { held: keeper.hold(grant), grant, write, database };
}

const replicaLeads = () => until('the replica was made the primary', async () => (await sentinels.primary()) === replica);

it('writes under the newer token win, the older are refused (case 9)', async () => {
  link.blackHole();
  const first = await ownerOn(primary, 'a/1');
  first?.write('by the first');
  await replicaLeads();
  const second = await ownerOn(replica, 'b/1');
  // This is the limit: for a while both hold the thread, and only the token tells them apart.
  expect(first?.held.signal.aborted).toBe(false);
  expect(second?.grant.fencingToken).toBeGreaterThan(first?.grant.fencingToken ?? NaN);
  second?.write('by the second');
  expect(() => first?.write('by the first, too late')).toThrow(StaleTokenError);
  second?.write('by the second again');
  expect(second?.database.orders('t')).toEqual(['by the first', 'by the second', 'by the second again']);
  await primary.kill('SIGKILL'); // what it knew goes with it: nobody renews the first any more, and its deadline ends it
  await until('the first has ended', () => first?.held.signal.aborted);
  expect(second?.held.signal.aborted).toBe(false);
});

it("the original's way gives out no tokens: a database has nothing to refuse by, and both write (case 9)", async () => {
  link.blackHole();
  const database = new FencedDatabase(join(directory, 'orders.db'));
  closing.push(() => database.close());
  const noToken = 0;
  for (const [server, owner] of [[primary, 'a/1'], [replica, 'b/1']] as const) {
    const client = connect(server);
    await until(`${owner} has the lease`, async () => {
      await originalLeases(client, 'mastra:topic').acquire(key, owner, ttlMs).catch(() => {}); // a replica takes no writes yet
      return (await client.get(`mastra:topic:lease:${key}`)) === owner;
    });
    database.addOrder('t', noToken, `by ${owner}`);
  }
  database.addOrder('t', noToken, 'by a/1, too late');
  expect(database.orders('t')).toEqual(['by a/1', 'by b/1', 'by a/1, too late']);
});

it('with replicaAcks such a lease is never given', async () => {
  link.blackHole();
  expect(await ownerOn(primary, 'a/1', { replicaAcks: 1, replicaAckTimeoutMs: 200 })).toBeUndefined();
});

it('with replicaAcks an owner on the wrong side ends before the other side can have its lease', async () => {
  const first = await ownerOn(primary, 'a/1', { replicaAcks: 1, replicaAckTimeoutMs: 200 });
  link.blackHole();
  await replicaLeads();
  await until('the other side has it', async () => {
    const second = await ownerOn(replica, 'b/1');
    if (second === undefined) return false;
    expect(first?.held.signal.aborted).toBe(true);
    return true;
  });
});

it('with replicaAcks a lease survives its primary, and nobody else gets it', async () => {
  const first = await ownerOn(primary, 'a/1', { replicaAcks: 1, replicaAckTimeoutMs: 2000 });
  await sentinels.failOver();
  expect(await ownerOn(replica, 'b/1')).toBeUndefined();
  expect(first?.held.signal.aborted).toBe(false);
});
