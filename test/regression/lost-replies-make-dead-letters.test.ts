/**
 * A network that loses replies: the owner asked for its signals again and again, each time counted as one more delivery, and
 * signals that no run had ever seen went to the dead letters.
 */

import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, expect, test } from 'vitest';

import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { RedisBackend } from '../../src/redis/backend.ts';
import { limits } from '../contract/mailbox.harness.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';

const thread = { resourceId: 'user', threadId: 'thread' };
let redis: RedisServer;
let backend: RedisBackend;

beforeAll(async () => {
  redis = await startRedis();
  backend = new RedisBackend({ source: { url: redis.url }, keyPrefix: 'test', limits });
  await backend.connect();
});
afterAll(async () => {
  await backend.close(1000);
  await redis.stop();
});

test('a run that asks for its signals again is given them once; only the next run is given them twice', async () => {
  const { mailbox } = backend;
  const claim = () => ({ owner: `pod/${randomUUID()}`, ttlMs: 60_000 });
  const signal = { id: 's', type: 'user', contents: 's', createdAt: '2026-01-01T00:00:00.000Z' };
  const delivery = await mailbox.deliver({
    thread,
    envelope: { agentId: 'agent', signal, turn: 'current' },
    ifActive: { behavior: 'deliver' },
    ifIdle: { behavior: 'wake' },
    claim: claim(),
  });
  const grant = delivery.grant as Grant;
  for (let asked = 0; asked <= limits.maxDeliveryAttempts; asked++) {
    const { entries, deadLettered } = await mailbox.take({ thread, grant });
    expect(entries.map(({ attempt }) => attempt)).toEqual([1]);
    expect(deadLettered).toBe(0);
  }
  const settled = await mailbox.settle({ thread, grant, consumed: [], next: claim() });
  const { entries } = await mailbox.take({ thread, grant: settled.grant as Grant });
  expect(entries.map(({ attempt }) => attempt)).toEqual([2]);
  await mailbox.settle({ thread, grant: settled.grant as Grant, consumed: entries.map(({ id }) => id) });
});
