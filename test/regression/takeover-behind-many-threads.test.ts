/**
 * A pod with 10,000 runs that were on for longer than a lease: each sweep looked at a hundred threads of the index, oldest first,
 * and all of those had a living owner, so that a dead owner's thread was found minutes later. And each look woke an owner
 * that had nothing to do.
 */

import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, test } from 'vitest';

import type { MailboxListener, ThreadMailbox } from '../../src/contracts/thread-mailbox.ts';
import type { ThreadRef } from '../../src/contracts/thread.ts';
import { RedisBackend } from '../../src/redis/backend.ts';
import { limits } from '../contract/mailbox.harness.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

let redis: RedisServer;
let client: Redis;
let backend: RedisBackend;
let mailbox: ThreadMailbox;

beforeEach(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  backend = new RedisBackend({ source: { url: redis.url }, keyPrefix: 'test', limits });
  await backend.connect();
  ({ mailbox } = backend);
});
afterEach(async () => {
  await backend.close(1000);
  client.disconnect();
  await redis.stop();
});

async function deliver(thread: ThreadRef, id: string, owner: string, ttlMs: number) {
  const signal = { id, type: 'user', contents: id, createdAt: '2026-01-01T00:00:00.000Z' };
  return await mailbox.deliver({
    thread,
    envelope: { agentId: 'agent', signal, turn: 'current' },
    ifActive: { behavior: 'deliver' },
    ifIdle: { behavior: 'wake' },
    claim: { owner, ttlMs },
  });
}

/** By the store's clock, the time of every thread in the index has come. */
async function allDue(): Promise<void> {
  for (const index of await client.keys('test:waiting:*')) {
    for (const name of await client.zrange(index, 0, '-1')) await client.zadd(index, '1', name);
  }
}

test('a dead owner’s thread is found at once behind hundreds whose owners live', async () => {
  const threads = Array.from({ length: 500 }, (_, n) => ({ resourceId: 'user', threadId: `on-${n}` }));
  await Promise.all(threads.map((thread, n) => deliver(thread, `s-${n}`, `living/run-${n}`, 60_000)));
  await allDue();
  const left = { resourceId: 'user', threadId: 'left' };
  const { grant } = await deliver(left, 's', 'dead/run', 60_000);
  await client.del(`test:lease:${grant!.key}`);
  await client.zadd(`test:waiting:${/\{p\d+\}/.exec(grant!.key)![0]}`, '2', 'user:left');
  expect(await mailbox.due(10)).toEqual([left]);
});

test('an owner is reminded of what it was told and did not take, and of nothing else', async () => {
  const thread = { resourceId: 'user', threadId: 'thread' };
  const { grant } = await deliver(thread, 'first', 'pod/run', 60_000);
  const { cursor } = await mailbox.take({ thread, grant: grant! });
  // The hint of this one is lost: nobody listens yet.
  await deliver(thread, 'second', 'another/run', 60_000);
  const heard: string[] = [];
  const listener: MailboxListener = {
    onArrival: ({ threadId }) => void heard.push(threadId),
    onAbort() {},
    onOrphan: ({ threadId }) => void heard.push(`orphan ${threadId}`),
    onResync() {},
  };
  const stop = await mailbox.listen('pod', listener);
  await allDue();
  expect(await mailbox.due(10)).toEqual([]);
  await until('the owner is reminded', () => heard.length === 1);
  expect(heard).toEqual(['thread']);

  const { entries } = await mailbox.take({ thread, grant: grant!, join: { agentId: 'agent', cursor } });
  expect(entries.map(({ envelope }) => envelope.signal.id)).toEqual(['second']);
  await allDue();
  expect(await mailbox.due(10)).toEqual([]);
  // Hints of one partition come in order: with this one there, none of before is still to come.
  await deliver(thread, 'third', 'another/run', 60_000);
  await until('the owner is told', () => heard.length >= 2);
  expect(heard).toEqual(['thread', 'thread']);
  await stop();
});
