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
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const ttlMs = 4000;
const settings = { ttlMs, renewIntervalMs: ttlMs / 3, driftMs: 540 };
const key = 'thread:{p1}:r:t';

let primary: RedisServer;
let link: TcpProxy;
let replica: RedisServer;
let directory: string;
const closing: (() => void)[] = [];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'signals-failover-'));
  primary = await startRedis({ config: ['repl-diskless-sync-delay 0'] });
  link = await startTcpProxy(primary.port);
  replica = await startRedis({ config: [`replicaof 127.0.0.1 ${link.port}`] });
  const client = connect(primary);
  await until('the replica follows', async () => {
    await client.set('something', 'to follow');
    return (await client.wait(1, 500)) === 1;
  });
});
afterEach(async () => {
  for (const close of closing.splice(0)) close();
  await replica.stop();
  await link.stop();
  await primary.stop();
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

async function failOver(): Promise<void> {
  await primary.kill('SIGKILL');
  await connect(replica).replicaof('NO', 'ONE');
}

it('a lease that no replica had when its primary died: writes under the newer token win, the older are refused (case 9)', async () => {
  link.blackHole();
  const first = await ownerOn(primary, 'a/1');
  first?.write('by the first');
  await failOver();
  const second = await ownerOn(replica, 'b/1');
  // This is the limit: for a while both hold the thread, and only the token tells them apart.
  expect(first?.held.signal.aborted).toBe(false);
  expect(second?.grant.fencingToken).toBeGreaterThan(first?.grant.fencingToken ?? NaN);
  second?.write('by the second');
  expect(() => first?.write('by the first, too late')).toThrow(StaleTokenError);
  second?.write('by the second again');
  expect(second?.database.orders('t')).toEqual(['by the first', 'by the second', 'by the second again']);
  await until('the first has been told', () => first?.held.signal.aborted);
  expect(second?.held.signal.aborted).toBe(false);
});

it('with replicaAcks such a lease is never given', async () => {
  link.blackHole();
  expect(await ownerOn(primary, 'a/1', { replicaAcks: 1, replicaAckTimeoutMs: 200 })).toBeUndefined();
});

it('with replicaAcks a lease survives its primary, and nobody else gets it', async () => {
  const first = await ownerOn(primary, 'a/1', { replicaAcks: 1, replicaAckTimeoutMs: 2000 });
  await failOver();
  expect(await ownerOn(replica, 'b/1')).toBeUndefined();
  expect(first?.held.signal.aborted).toBe(false);
});
