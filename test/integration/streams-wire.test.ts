/** The wire is the original backend's: what it writes we read, what we write it reads, and both settle side by side. */

import { randomUUID } from 'node:crypto';

import { createClient } from 'redis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { newEvent, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { until } from '../support/until.ts';

describe('the wire format', () => {
  let server: RedisServer;
  let original: ReturnType<typeof createClient>;
  const fixture = new StreamsFixture();
  const key = 'mastra:topic:wire';

  beforeAll(async () => {
    server = await startRedis();
    original = createClient({ url: server.url });
    original.on('error', () => {});
    await original.connect();
  });
  afterEach(async () => {
    await fixture.closeAll();
    await original.flushAll();
  });
  afterAll(async () => {
    original.destroy();
    await server.stop();
  });

  const asOriginal = (n: number) => ({ type: 'test', data: { n }, runId: 'run-1', id: randomUUID(), createdAt: new Date(), deliveryAttempt: 1 });

  it('is read as the original writes it', async () => {
    const written = asOriginal(1);
    await original.xAdd(key, '*', { event: JSON.stringify(written) }, { TRIM: { strategy: 'MAXLEN', strategyModifier: '~', threshold: 10_000 } });
    const [fanout, grouped] = [recorder(), recorder()];
    const pubsub = fixture.open({ url: server.url });
    await pubsub.subscribe('wire', fanout.callback);
    await pubsub.subscribe('wire', grouped.callback, { group: 'workers' });
    await until('both have it', () => fanout.events.length === 1 && grouped.events.length === 1);
    expect(fanout.events[0]).toEqual(written);
    expect(grouped.events[0]).toEqual(written);
  });

  it('is written as the original reads it: one field `event`, the JSON of the event, createdAt as ISO text', async () => {
    const pubsub = fixture.open({ url: server.url });
    await original.xGroupCreate(key, 'workers', '0', { MKSTREAM: true });
    await pubsub.publish('wire', { ...newEvent(1), index: 7 });
    const reply = (await original.xReadGroup('workers', 'theirs', [{ key, id: '>' }], { COUNT: 10 })) as unknown as {
      name: string;
      messages: { id: string; message: Record<string, string> }[];
    }[];
    const message = reply[0]?.messages[0]?.message ?? {};
    expect(Object.keys(message)).toEqual(['event']);
    const event = JSON.parse(message['event'] ?? '') as Record<string, unknown>;
    expect(Object.keys(event).sort()).toEqual(['createdAt', 'data', 'deliveryAttempt', 'id', 'index', 'runId', 'type']);
    expect(event).toMatchObject({ type: 'test', data: { n: 1 }, runId: 'run-1', index: 7, deliveryAttempt: 1 });
    expect(event['createdAt']).toBe(new Date(event['createdAt'] as string).toISOString());
    expect(await original.xInfoStream(key)).toMatchObject({ length: 1 });
  });

  it('lets a mixed fleet share a group: each event goes to one of the two, and is settled by it', async () => {
    const { callback, numbers } = recorder();
    const pubsub = fixture.open({ url: server.url });
    await pubsub.subscribe('wire', callback, { group: 'workers' });
    const theirs: number[] = [];
    const reading = async () => {
      const reader = original.duplicate();
      reader.on('error', () => {});
      await reader.connect();
      while (theirs.length + numbers().length < 200) {
        const reply = (await reader.xReadGroup('workers', 'theirs', [{ key, id: '>' }], { COUNT: 10, BLOCK: 50 })) as unknown as
          | { messages: { id: string; message: Record<string, string> }[] }[]
          | null;
        for (const { id, message } of reply?.[0]?.messages ?? []) {
          theirs.push((JSON.parse(message['event'] ?? '') as { data: { n: number } }).data.n);
          await original.xAck(key, 'workers', id);
        }
      }
      reader.destroy();
    };
    const done = reading();
    for (let n = 0; n < 200; n++) {
      if (n % 2 === 0) await pubsub.publish('wire', newEvent(n));
      else await original.xAdd(key, '*', { event: JSON.stringify(asOriginal(n)) });
    }
    await done;
    await pubsub.flush();
    expect([...theirs, ...numbers()].sort((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, n) => n));
    expect((await original.xPending(key, 'workers')).pending).toBe(0);
  });

  it('gives a nacked event back the way the original does: appended with the next attempt, the first one acked', async () => {
    const pubsub = fixture.open({ url: server.url });
    const attempts: number[] = [];
    await pubsub.subscribe(
      'wire',
      (event, ack, nack) => {
        attempts.push(event.deliveryAttempt ?? 0);
        // What a handler does to its copy must not travel.
        event.data = 'changed';
        void (attempts.length === 1 ? nack?.() : ack?.());
      },
      { group: 'workers' },
    );
    const written = asOriginal(1);
    await original.xAdd(key, '*', { event: JSON.stringify(written) });
    await until('the second attempt', () => attempts.length === 2);
    const entries = await original.xRange(key, '-', '+');
    expect(JSON.parse(entries?.[1]?.message['event'] ?? '')).toEqual({ ...JSON.parse(JSON.stringify(written)), deliveryAttempt: 2 });
    await pubsub.flush();
    expect((await original.xPending(key, 'workers')).pending).toBe(0);
  });

  it('trims approximately on publish and keeps the idle TTL sliding with every write', async () => {
    const pubsub = fixture.open({ url: server.url, maxStreamLength: 100, streamIdleTtlMs: 60_000 });
    for (let n = 0; n < 1000; n++) await pubsub.publish('wire', newEvent(n));
    expect(await original.xLen(key)).toBeLessThan(300);
    expect(await original.pTTL(key)).toBeGreaterThan(50_000);
    await original.pExpire(key, 30_000);
    let nacked = false;
    await pubsub.subscribe(
      'wire',
      (_event, ack, nack) => {
        if (nacked) return ack?.();
        nacked = true;
        return nack?.();
      },
      { group: 'workers', startFrom: 'latest' },
    );
    expect(await original.pTTL(key)).toBeGreaterThan(50_000);
    await original.pExpire(key, 30_000);
    await original.xAdd(key, '*', { event: JSON.stringify(asOriginal(1)) });
    await until('the retry renewed it', async () => nacked && (await original.pTTL(key)) > 50_000);
  });

  it('keeps leases where the original looks for them, holding the owner and nothing else', async () => {
    const pubsub = fixture.open({ url: server.url });
    expect(await pubsub.acquireLease('thread', 'owner-1', 60_000)).toMatchObject({ acquired: true, owner: 'owner-1' });
    expect(await original.get('mastra:topic:lease:thread')).toBe('owner-1');
    await original.set('mastra:topic:lease:other', 'their-owner', { PX: 60_000 });
    expect(await pubsub.acquireLease('other', 'owner-1', 60_000)).toMatchObject({ acquired: false, owner: 'their-owner' });
    expect(await pubsub.transferLease('thread', 'owner-1', 'owner-2', 60_000)).toBe(true);
    expect(await pubsub.renewLease('thread', 'owner-1', 60_000)).toBe(false);
    await pubsub.releaseLease('thread', 'owner-2');
    expect(await pubsub.getLeaseOwner('thread')).toBeUndefined();
  });
});
