/** A lease that goes from run to run while another instance asks for it all the time: the key must never be empty (case 4). */

import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { transferByRelease } from '../../src/leases/transfer-by-release.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';

const key = 'thread:{p1}:r:t';
const ttlMs = 60_000;

let server: RedisServer;
let clients: Redis[];
let provider: RedisLeaseProvider;
let intruder: RedisLeaseProvider;

beforeEach(async () => {
  server = await startRedis();
  clients = [new Redis(server.url), new Redis(server.url)];
  [provider, intruder] = clients.map(client => new RedisLeaseProvider(client, new RedisKeys())) as [RedisLeaseProvider, RedisLeaseProvider];
});
afterEach(async () => {
  for (const client of clients) client.disconnect();
  await server.stop();
});

type Transfer = (from: string, to: string) => Promise<boolean>;

/** Answers how many hand-overs there were before the intruder got the lease, or `count` when it never did. */
async function handOver(count: number, transfer: Transfer): Promise<number> {
  expect((await provider.acquireLease(key, 'run-0', ttlMs)).acquired).toBe(true);
  const state = { isOver: false, asked: 0 };
  const asking = (async () => {
    while (!state.isOver) {
      state.asked++;
      if ((await intruder.acquireLease(key, 'intruder', ttlMs)).acquired) state.isOver = true;
    }
  })();
  let made = 0;
  while (made < count && !state.isOver && (await transfer(`run-${made}`, `run-${made + 1}`))) made++;
  state.isOver = true;
  await asking;
  expect(state.asked).toBeGreaterThan(0);
  return made;
}

it('never gets to who asks all the time', async () => {
  expect(await handOver(3000, (from, to) => provider.transferLease(key, from, to, ttlMs))).toBe(3000);
  expect(await intruder.getLeaseOwner(key)).toBe('run-3000');
});

it('would get there where a hand-over is a release and an acquire, as on a backend that has no other way', async () => {
  expect(await handOver(3000, (from, to) => transferByRelease(provider, key, from, to, ttlMs))).toBeLessThan(3000);
  expect(await intruder.getLeaseOwner(key)).toBe('intruder');
});
