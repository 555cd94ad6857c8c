/** The real `@mastra/core` with our backends: what it accepts, and what of it goes over them. Its threads: `mastra-core-threads.test.ts`. */

import {
  CachingPubSub,
  EventEmitterPubSub as TheirEventEmitterPubSub,
  isLeaseProvider as theirIsLeaseProvider,
  NoopLeaseProvider as TheirNoopLeaseProvider,
} from '@mastra/core/events';
import type { Event as TheirEvent, LeaseProvider as TheirLeaseProvider } from '@mastra/core/events';
import { InMemoryServerCache } from '@mastra/core/cache';
import { Mastra } from '@mastra/core/mastra';
import { InMemoryStore } from '@mastra/core/storage';
import { createStep, createWorkflow } from '@mastra/core/workflows/evented';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

import { isLeaseProvider, leaseProviderOf, NoopLeaseProvider } from '../../src/contracts/lease-provider.ts';
import type { LeaseProvider } from '../../src/contracts/lease-provider.ts';
import { EventEmitterPubSub, RedisStreamsPubSub } from '../../src/mastra.ts';
import type { SignalsPubSub } from '../../src/mastra.ts';
import { MemoryLeaseProvider } from '../../src/memory/memory-leases.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const keyPrefix = 'interop';
let redis: RedisServer;
let client: Redis;
let cleanups: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
});

afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
  await client.flushall();
});

afterAll(async () => {
  client.disconnect();
  await redis.stop();
});

const backends = {
  RedisStreamsPubSub: () => new RedisStreamsPubSub({ url: redis.url, keyPrefix }),
  EventEmitterPubSub: () => new EventEmitterPubSub(),
};
type BackendName = keyof typeof backends;
const names = Object.keys(backends) as BackendName[];

function open(name: BackendName): SignalsPubSub {
  const pubsub = backends[name]();
  cleanups.push(() => pubsub.close());
  return pubsub;
}

/** Closed before its backend, which was opened before it. */
function mastraOn(pubsub: SignalsPubSub, config: Omit<ConstructorParameters<typeof Mastra>[0] & object, 'pubsub'> = {}): Mastra {
  const mastra = new Mastra({ logger: false, storage: new InMemoryStore(), ...config, pubsub });
  cleanups.push(() => mastra.shutdown());
  return mastra;
}

describe('leases', () => {
  it('ours are lease providers to Mastra, and its are to us', () => {
    const ours = [...names.map(open), new RedisLeaseProvider(client, new RedisKeys(keyPrefix)), new MemoryLeaseProvider(), NoopLeaseProvider];
    for (const provider of ours) expect(theirIsLeaseProvider(provider)).toBe(true);
    for (const provider of [new TheirEventEmitterPubSub(), TheirNoopLeaseProvider]) expect(isLeaseProvider(provider)).toBe(true);
    for (const other of [undefined, null, 'text', {}, { acquireLease() {} }]) {
      expect(theirIsLeaseProvider(other)).toBe(false);
      expect(isLeaseProvider(other)).toBe(false);
    }
  });

  it('are found through Mastra’s caching wrapper, by both', () => {
    for (const name of names) {
      const inner = open(name);
      const caching = new CachingPubSub(inner, new InMemoryServerCache());
      expect(caching.getLeaseProvider()).toBe(inner);
      expect(leaseProviderOf(caching)).toBe(inner);
    }
  });

  it('of one type go where the other is asked for', async () => {
    const asTheirs: TheirLeaseProvider = new MemoryLeaseProvider();
    const asOurs: LeaseProvider = new TheirEventEmitterPubSub();
    for (const provider of [asTheirs, asOurs]) {
      expect(await provider.acquireLease('k', 'a', 5_000)).toMatchObject({ acquired: true, owner: 'a' });
      expect(await provider.acquireLease('k', 'b', 5_000)).toMatchObject({ acquired: false, owner: 'a' });
      expect(await provider.transferLease('k', 'a', 'b', 5_000)).toBe(true);
      expect(await provider.getLeaseOwner('k')).toBe('b');
    }
  });
});

describe.each(names)('a Mastra on %s', name => {
  it('publishes and listens through it', async () => {
    const pubsub = open(name);
    const heard: TheirEvent[] = [];
    const mastra = mastraOn(pubsub, { events: { orders: async (event: TheirEvent) => void heard.push(event) } });
    await mastra.startWorkers();
    const direct: TheirEvent[] = [];
    await pubsub.subscribe('orders', (event, ack) => (direct.push(event), ack?.()));

    await mastra.pubsub.publish('orders', { type: 'order.placed', runId: 'r', data: { n: 1 } });
    await until('both have heard it', () => heard.length === 1 && direct.length === 1);
    expect(heard[0]).toMatchObject({ type: 'order.placed', runId: 'r', data: { n: 1 }, deliveryAttempt: 1 });
    expect(heard[0]?.createdAt).toBeInstanceOf(Date);
    expect(direct[0]?.id).toBe(heard[0]?.id);
  });

  it('finds its leases through the proxy that it puts before it', async () => {
    const pubsub = open(name);
    const proxy = mastraOn(pubsub).pubsub;
    expect(theirIsLeaseProvider(proxy)).toBe(true);
    await leaseProviderOf(proxy).acquireLease('key', 'run', 5_000);
    expect(await pubsub.getLeaseOwner('key')).toBe('run');
  });

  it('runs a workflow whose steps go over it', async () => {
    const pubsub = open(name);
    const number = z.object({ n: z.number() });
    const step = (id: string, of: (n: number) => number) =>
      createStep({ id, inputSchema: number, outputSchema: number, execute: async ({ inputData }) => ({ n: of(inputData.n) }) });
    const workflow = createWorkflow({ id: 'sums', inputSchema: number, outputSchema: number })
      .then(step('double', n => n * 2))
      .then(step('increment', n => n + 1))
      .commit();
    const types: string[] = [];
    await pubsub.subscribe('workflows', (event, ack) => (types.push(event.type), ack?.()));
    const mastra = mastraOn(pubsub, { workflows: { sums: workflow } });
    await mastra.startWorkers();
    const run = await mastra.getWorkflow('sums').createRun();
    expect(await run.start({ inputData: { n: 20 } })).toMatchObject({ status: 'success', result: { n: 41 } });
    await until('its events were ours to carry', () => types.includes('workflow.end'));
    expect(types.filter(type => type === 'workflow.step.run').length).toBeGreaterThanOrEqual(2);
  });
});

describe('on the wire of the original backend', () => {
  it('a Mastra hears what another process puts on the stream, ids and times kept', async () => {
    const heard: TheirEvent[] = [];
    const mastra = mastraOn(open('RedisStreamsPubSub'), { events: { orders: async (event: TheirEvent) => void heard.push(event) } });
    await mastra.startWorkers();
    const event = { type: 'order.placed', runId: 'r', data: { n: 7 }, id: crypto.randomUUID(), createdAt: new Date(1e12).toISOString() };
    await client.xadd(`${keyPrefix}:orders`, '*', 'event', JSON.stringify(event));
    await until('it was heard', () => heard.length === 1);
    expect(heard[0]).toEqual({ ...event, createdAt: new Date(1e12), deliveryAttempt: 1 });
  });

  it('a process that reads the stream itself finds what a Mastra publishes', async () => {
    const mastra = mastraOn(open('RedisStreamsPubSub'));
    await mastra.pubsub.publish('orders', { type: 'order.placed', runId: 'r', data: { n: 8 } });
    const [[, fields]] = (await client.xrange(`${keyPrefix}:orders`, '-', '+')) as [[string, string[]]];
    expect(fields[0]).toBe('event');
    const event = JSON.parse(fields[1] ?? '') as Record<string, unknown>;
    expect(event).toMatchObject({ type: 'order.placed', runId: 'r', data: { n: 8 } });
    expect(event['id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(new Date(event['createdAt'] as string).toISOString()).toBe(event['createdAt']);
  });
});
