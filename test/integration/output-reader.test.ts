/** Readers of output on a real Redis that forgets it: since it was kept for long enough, or since it has lost it. */

import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { threadLeaseKey } from '../../src/contracts/thread.ts';
import type { Grant, MailboxLimits } from '../../src/contracts/thread-mailbox.ts';
import { RedisBackend } from '../../src/redis/backend.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { Follower, limits, text, words } from '../contract/mailbox.harness.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user', threadId: 'thread' };
const { out } = new RedisKeys('test').thread(thread);
let redis: RedisServer;
let client: Redis;
let backend: RedisBackend;

beforeEach(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  await open(limits);
});
afterEach(async () => {
  await backend.close(1000);
  client.disconnect();
  await redis.stop();
});

async function open(of: MailboxLimits): Promise<void> {
  backend = new RedisBackend({ source: { url: redis.url }, keyPrefix: 'test', limits: of });
  await backend.connect();
}

async function wake(id: string): Promise<Grant> {
  const signal = { id, type: 'user', contents: id, createdAt: '2026-01-01T00:00:00.000Z' };
  const delivery = await backend.mailbox.deliver({
    thread,
    envelope: { agentId: 'agent', signal, turn: 'current' },
    ifActive: { behavior: 'deliver' },
    ifIdle: { behavior: 'wake' },
    claim: { owner: `pod/${id}`, ttlMs: 60_000 },
  });
  return delivery.grant as Grant;
}

/** Every reader looks whether it may have missed something, as after any reconnect. */
async function dropConnections(): Promise<void> {
  await client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
}

test('a reader who comes back when its output has expired is told so before anything else is put out', async () => {
  await backend.mailbox.append(thread, await wake('s'), text('1', '2'));
  const reader = await Follower.start(backend.mailbox, thread, '0-0');
  const seen = (await reader.has(1))[0]?.id;
  await reader.stop();
  await client.pexpire(out, 1);
  await until('it has expired', async () => (await client.exists(out)) === 0);
  const back = await Follower.start(backend.mailbox, thread, seen);
  expect((await back.has(1))[0]?.chunk).toEqual({ type: 'signals-missed', payload: { after: seen, until: '0-0' } });
  await back.stop();
});

test('a reader who stays and has read all misses nothing when that expires', async () => {
  await backend.close(1000);
  await open({ ...limits, outputRetentionMs: 1000 });
  const grant = await wake('s');
  const reader = await Follower.start(backend.mailbox, thread);
  await backend.mailbox.append(thread, grant, text('1'));
  await reader.has(1);
  await until('it has expired', async () => (await client.exists(out)) === 0);
  const gets = async () => Number(/cmdstat_xrevrange:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? 0);
  const before = await gets();
  await dropConnections();
  await until('it has looked', async () => (await gets()) > before);
  await backend.mailbox.append(thread, grant, text('2'));
  expect(words(await reader.has(2))).toEqual(['1', '2']);
  await reader.stop();
});

test('a reader is told at once when the store has lost what it has read', async () => {
  const grant = await wake('s');
  const reader = await Follower.start(backend.mailbox, thread);
  await backend.mailbox.append(thread, grant, text('1'));
  await backend.mailbox.append(thread, grant, text('2'));
  const [first, second] = await reader.has(2);
  // As a replica would that had not got it when its primary died.
  await client.xdel(out, second?.id ?? '');
  await dropConnections();
  expect((await reader.has(3))[2]).toEqual({ id: first?.id, chunk: { type: 'signals-missed', payload: { after: second?.id, until: first?.id } } });
  expect(await client.exists(new RedisKeys('test').lease(threadLeaseKey(thread)).lease)).toBe(1);
  await reader.stop();
});

test('a reader is told at once when the store has lost everything', async () => {
  const reader = await Follower.start(backend.mailbox, thread);
  await backend.mailbox.append(thread, await wake('s'), text('1'));
  const [first] = await reader.has(1);
  await client.del(out);
  await dropConnections();
  expect((await reader.has(2))[1]).toEqual({ id: '0-0', chunk: { type: 'signals-missed', payload: { after: first?.id, until: '0-0' } } });
  await reader.stop();
});
