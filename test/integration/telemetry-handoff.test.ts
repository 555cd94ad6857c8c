/**
 * `signals.lease.handoff.gap`: for how long a thread with waiting signals had no owner, by the clock of a real Redis; and
 * `signals.lease.takeovers`: what of that was left by an owner that had gone.
 */

import { randomUUID } from 'node:crypto';

import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { threadLeaseKey } from '../../src/contracts/thread.ts';
import type { ThreadRef } from '../../src/contracts/thread.ts';
import type { Grant, ThreadMailbox } from '../../src/contracts/thread-mailbox.ts';
import { RedisBackend } from '../../src/redis/backend.ts';
import { instrumentMailbox } from '../../src/telemetry/instrumented-mailbox.ts';
import { Instance, limits, longMs, newThread } from '../contract/mailbox.harness.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import { startHarness } from '../unit/telemetry/harness.ts';
import type { Harness } from '../unit/telemetry/harness.ts';

const shortMs = 400;
/** The store's times are whole milliseconds, rounded at several places. */
const roundingMs = 2;

let server: RedisServer;
let redis: Redis;
let harness: Harness;
let backend: RedisBackend;
let prefix: string;
let [a, b]: Instance[] = [];

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
});
beforeEach(async () => {
  harness = startHarness();
  prefix = `gap-${randomUUID()}`;
  backend = new RedisBackend({ source: { url: server.url }, keyPrefix: prefix, limits });
  await backend.connect();
  [a, b] = ['a', 'b'].map(id => new Instance({ id, mailbox: shown(backend.mailbox), operations: backend.operations }));
});
afterEach(async () => {
  await backend.close(1000);
  await harness.stop();
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

function shown(mailbox: ThreadMailbox): ThreadMailbox {
  return instrumentMailbox(mailbox, harness.instrumentation);
}

/** By the clock that the gap is measured with. */
async function storeMs(): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1000 + Number(micros) / 1000;
}

/** What `step` measured, and the shortest and longest that it can have been when the thread lost its owner within `lost`. */
async function gapOf(lost: readonly [number, number], step: () => Promise<Grant | undefined>) {
  const before = await storeMs();
  const grant = await step();
  const after = await storeMs();
  return { gapMs: grant?.unownedMs ?? Number.NaN, least: before - lost[1] - roundingMs, most: after - lost[0] + roundingMs };
}

async function recorded(): Promise<{ count: number; sum: number }> {
  const points = await harness.points('signals.lease.handoff.gap');
  const value = points[0]?.value as { count: number; sum: number } | undefined;
  return { count: value?.count ?? 0, sum: value?.sum ?? 0 };
}

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));

test('a thread that is handed over was never without an owner: the gap is 0', async () => {
  const thread = newThread();
  const grant = await a!.wake(thread, 's1');
  const { offered } = await a!.mailbox.settle({ thread, grant, consumed: [], offerMs: longMs });
  expect(offered).toBe(true);
  await pause(20);
  expect((await b!.mailbox.claim(thread, b!.claim()))?.unownedMs).toBe(0);
  expect(await recorded()).toEqual({ count: 1, sum: 0 });
});

test('a thread that was let go has had no owner since that moment', async () => {
  const thread = newThread();
  const grant = await a!.wake(thread, 's1');
  const from = await storeMs();
  await a!.mailbox.settle({ thread, grant, consumed: [] });
  const to = await storeMs();
  await pause(50);
  const { gapMs, least, most } = await gapOf([from, to], () => b!.mailbox.claim(thread, b!.claim()));
  expect(gapMs).toBeGreaterThanOrEqual(least);
  expect(gapMs).toBeLessThanOrEqual(most);
  expect(await recorded()).toEqual({ count: 1, sum: gapMs / 1000 });
});

test('after the death of an owner the gap begins with the end of its lease, its last renewals included', async () => {
  const thread = newThread();
  const grant = await a!.wake(thread, 's1', { claim: a!.claim('run', shortMs) });
  // Renewed when the index still says the first end, then looked at, then never again.
  await pause(shortMs / 2);
  expect(await backend.leases.renewLease(grant.key, grant.owner, shortMs)).toBe(true);
  await pause(shortMs / 2 + 10);
  expect(await a!.mailbox.due(10)).toEqual([]);
  const lease = `${prefix}:lease:${threadLeaseKey(thread)}`;
  const endsAt = await redis.pexpiretime(lease);
  expect(endsAt).toBeGreaterThan(await storeMs());
  await until('the lease has ended', async () => (await redis.exists(lease)) === 0);
  await pause(50);
  const { gapMs, least, most } = await gapOf([endsAt, endsAt], () => b!.mailbox.claim(thread, b!.claim()));
  expect(gapMs).toBeGreaterThanOrEqual(least);
  expect(gapMs).toBeLessThanOrEqual(most);
});

test('renewals that nobody looked at make the gap too long at most, never too short', async () => {
  const thread = newThread();
  const grant = await a!.wake(thread, 's1', { claim: a!.claim('run', shortMs) });
  const lease = `${prefix}:lease:${threadLeaseKey(thread)}`;
  const firstEnd = await redis.pexpiretime(lease);
  await pause(shortMs / 2);
  expect(await backend.leases.renewLease(grant.key, grant.owner, shortMs)).toBe(true);
  const lastEnd = await redis.pexpiretime(lease);
  await until('the lease has ended', async () => (await redis.exists(lease)) === 0);
  const { gapMs, least, most } = await gapOf([firstEnd, lastEnd], () => b!.mailbox.claim(thread, b!.claim()));
  expect(gapMs).toBeGreaterThanOrEqual(least);
  expect(gapMs).toBeLessThanOrEqual(most);
});

test('signals that nobody could take wait from the first of them on, until one comes with an owner', async () => {
  const thread = newThread();
  const from = await storeMs();
  await a!.send(thread, 's1', { claim: null });
  const to = await storeMs();
  await pause(30);
  await a!.send(thread, 's2', { claim: null });
  await pause(30);
  const { gapMs, least, most } = await gapOf([from, to], () => b!.wake(thread, 's3'));
  expect(gapMs).toBeGreaterThanOrEqual(least);
  expect(gapMs).toBeLessThanOrEqual(most);
});

test('a thread where nothing waited has no gap, and neither has a run after another of the same owner', async () => {
  const thread = newThread();
  const grant = await a!.wake(thread, 's1');
  expect(grant.unownedMs).toBeUndefined();
  const { grant: next } = await a!.mailbox.settle({ thread, grant, consumed: [], next: a!.claim() });
  expect(next?.owner).toMatch(/^a\//);
  expect((await recorded()).count).toBe(0);
});

describe('counts as taken over', () => {
  const shortLived = (thread: ThreadRef) => a!.wake(thread, 's1', { claim: a!.claim('run', shortMs) });
  const over = async (thread: ThreadRef) =>
    await until('the lease has ended', async () => (await redis.exists(`${prefix}:lease:${threadLeaseKey(thread)}`)) === 0);

  test('what is found by a sweep after its owner has gone', async () => {
    const thread = newThread();
    await shortLived(thread);
    await over(thread);
    expect((await b!.mailbox.claim(thread, b!.claim()))?.takenOver).toBe(true);
  });

  test('what a signal finds before any sweep does', async () => {
    const thread = newThread();
    await shortLived(thread);
    await over(thread);
    expect((await b!.wake(thread, 's2')).takenOver).toBe(true);
  });

  test('not what an owner let go in order, nor what a full or draining pod left to others', async () => {
    const thread = newThread();
    const grant = await a!.wake(thread, 's1');
    await a!.mailbox.settle({ thread, grant, consumed: [] });
    expect((await b!.mailbox.claim(thread, b!.claim()))?.takenOver).toBeUndefined();
    const other = newThread();
    await a!.send(other, 's1', { claim: null });
    await pause(20);
    expect((await b!.mailbox.claim(other, b!.claim()))?.takenOver).toBeUndefined();
  });

  test('not what it handed over', async () => {
    const thread = newThread();
    const grant = await a!.wake(thread, 's1');
    await a!.mailbox.settle({ thread, grant, consumed: [], offerMs: longMs });
    expect((await b!.mailbox.claim(thread, b!.claim()))?.takenOver).toBeUndefined();
  });
});
