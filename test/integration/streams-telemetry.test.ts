/** One trace from the sender to the handler, and what can be seen of deliveries, without any topic on a metric. */

import { context, metrics, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { newEvent, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';
import { parentOf, startHarness } from '../unit/telemetry/harness.ts';
import type { Harness } from '../unit/telemetry/harness.ts';

describe('messaging telemetry', () => {
  let server: RedisServer;
  let redis: Redis;
  let harness: Harness;
  const fixture = new StreamsFixture();

  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
  });
  beforeEach(() => {
    harness = startHarness();
    trace.setGlobalTracerProvider(harness.tracerProvider);
    metrics.setGlobalMeterProvider(harness.meterProvider);
  });
  afterEach(async () => {
    await fixture.closeAll();
    await harness.stop();
    trace.disable();
    metrics.disable();
    await redis.flushall();
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  it('carries the trace in the entry: the first delivery goes on in it, with the handler inside', async () => {
    const [sender, receiver] = [fixture.open({ url: server.url }), fixture.open({ url: server.url })];
    const inside: (string | undefined)[] = [];
    await receiver.subscribe(
      'thread-1',
      (_event, ack) => {
        inside.push(trace.getActiveSpan()?.spanContext().spanId);
        void ack?.();
      },
      { group: 'workers' },
    );
    const request = harness.tracerProvider.getTracer('test').startSpan('request', {}, ROOT_CONTEXT);
    await context.with(trace.setSpan(ROOT_CONTEXT, request), () => sender.publish('thread-1', newEvent(1)));
    await until('it is handled', () => inside.length === 1);
    const [send] = harness.spans('send thread-1');
    const [process] = harness.spans('process thread-1');
    expect(parentOf(send!)).toBe(request.spanContext().spanId);
    expect(send!.kind).toBe(SpanKind.PRODUCER);
    expect(parentOf(process!)).toBe(send!.spanContext().spanId);
    expect(process!.kind).toBe(SpanKind.CONSUMER);
    expect(process!.spanContext().traceId).toBe(request.spanContext().traceId);
    expect(inside).toEqual([process!.spanContext().spanId]);
    expect(process!.attributes).toMatchObject({
      'messaging.operation.name': 'process',
      'messaging.destination.name': 'thread-1',
      'messaging.consumer.group.name': 'workers',
    });
  });

  it('starts a new trace with a link for a redelivery, and for a late delivery', async () => {
    const pubsub = fixture.open({ url: server.url });
    let attempts = 0;
    await pubsub.subscribe('t', (_event, ack, nack) => void (++attempts === 1 ? nack?.() : ack?.()), { group: 'workers' });
    await pubsub.publish('t', newEvent(1));
    await until('the second attempt', () => attempts === 2);
    const [send] = harness.spans('send t');
    const redelivery = harness.spans('process t').find(span => span.attributes['signals.delivery.attempt'] === 2);
    expect(parentOf(redelivery!)).toBeUndefined();
    expect(redelivery!.spanContext().traceId).not.toBe(send!.spanContext().traceId);
    expect(redelivery!.links.map(link => link.context.spanId)).toEqual([send!.spanContext().spanId]);

    const old = { ...newEvent(2), id: 'late', createdAt: new Date(Date.now() - 3_600_000), deliveryAttempt: 1 };
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await redis.xadd('mastra:topic:t', '*', 'event', JSON.stringify(old), 'traceparent', traceparent);
    await until('the late one', () => attempts === 3);
    const late = harness.spans('process t').find(span => span.attributes['messaging.message.id'] === 'late');
    expect(parentOf(late!)).toBeUndefined();
    expect(late!.links.map(link => link.context.traceId)).toEqual(['0af7651916cd43dd8448eb211c80319c']);
  });

  it('shows what settles entries, together or one by one, as operations of a client that lead to their senders', async () => {
    const pubsub = fixture.open({ url: server.url });
    const { callback, events } = recorder();
    let nacks = 0;
    await pubsub.subscribe('t', (event, ack, nack) => {
      if (event.deliveryAttempt === 1 && nacks++ === 0) void nack?.();
      else void callback(event, ack, nack);
    }, { group: 'workers' });
    for (let n = 0; n < 3; n++) await pubsub.publish('t', newEvent(n));
    await until('all are handled', () => events.length === 3);
    const settled = () => harness.spans('ack t').reduce((sum, span) => sum + Number(span.attributes['messaging.batch.message_count'] ?? 1), 0);
    await until('all are settled', () => settled() === 3);
    const [nack] = harness.spans('nack t');
    expect(nack?.kind).toBe(SpanKind.CLIENT);
    expect(nack?.attributes).toMatchObject({
      'messaging.operation.name': 'nack', 'messaging.operation.type': 'settle', 'messaging.consumer.group.name': 'workers',
    });
    const senders = harness.spans('send t').map(span => span.spanContext().spanId);
    const linked = [...harness.spans('ack t'), nack!].flatMap(span => span.links.map(link => link.context.spanId));
    expect(new Set(linked)).toEqual(new Set(senders));
    for (const span of harness.spans('ack t')) expect(parentOf(span)).toBeUndefined();
    const operations = (await harness.points('messaging.client.operation.duration')).map(({ attributes }) => attributes['messaging.operation.name']);
    expect(new Set(operations)).toEqual(new Set(['send', 'ack', 'nack']));
  });

  it('shows a handler that fails and a publish that fails as errors', async () => {
    const pubsub = fixture.open({ url: server.url, maxDeliveryAttempts: 1 });
    await pubsub.subscribe('t', () => Promise.reject(new TypeError('no')), { group: 'workers' });
    await pubsub.publish('t', newEvent(1));
    await until('it is dropped', () => fixture.warnings(/dropped/).length === 1);
    expect(harness.spans('process t')[0]?.status).toMatchObject({ code: 2, message: 'no' });
    const [processed] = await harness.points('messaging.process.duration');
    expect(processed?.attributes).toMatchObject({ 'error.type': 'TypeError' });
    expect((await harness.points('signals.stream.dead_letters'))[0]?.value).toBe(1);

    await redis.set('mastra:topic:wrong', 'a string');
    await expect(pubsub.publish('wrong', newEvent(1))).rejects.toThrow('WRONGTYPE');
    expect(harness.spans('send wrong')[0]?.status.code).toBe(2);
  });

  it('counts what was sent, consumed, redelivered and undecodable, and names no topic on any metric', async () => {
    const pubsub = fixture.open({ url: server.url });
    const { callback, events } = recorder();
    await pubsub.subscribe('thread-secret', callback, { group: 'workers' });
    for (let n = 0; n < 10; n++) await pubsub.publish('thread-secret', newEvent(n));
    await redis.xadd('mastra:topic:thread-secret', '*', 'event', '{');
    await until('all arrive', () => events.length === 10);
    const value = async (name: string) => (await harness.points(name)).reduce((sum, point) => sum + Number(point.value), 0);
    expect(await value('messaging.client.sent.messages')).toBe(10);
    expect(await value('messaging.client.consumed.messages')).toBe(10);
    await until('the other is counted', async () => (await value('signals.stream.undecodable')) === 1);
    const [progress] = await harness.points('signals.stream.reader.progress.age');
    expect(Number(progress?.value)).toBeGreaterThanOrEqual(0);
    for (const name of ['messaging.client.sent.messages', 'messaging.process.duration', 'messaging.client.operation.duration']) {
      expect(JSON.stringify(await harness.points(name))).not.toContain('thread-secret');
    }
  });

  it('shows for how long a reader has got no answer, whether the server refuses connections or is silent', async () => {
    const proxy = await startTcpProxy(server.port);
    onTestFinished(() => proxy.stop());
    const pubsub = fixture.open({ url: proxy.url, blockMs: 50 });
    const { callback } = recorder();
    await pubsub.subscribe('t', callback, { group: 'workers' });
    const ageS = async () => Number((await harness.points('signals.stream.reader.progress.age'))[0]?.value);
    for (const outage of ['down', 'blackHole'] as const) {
      await until('the reader is answered again and again', async () => (await ageS()) < 0.5);
      proxy[outage]();
      await until(`${outage}: the age grows`, async () => (await ageS()) > 1.5);
      proxy.restore();
    }
    await until('the reader is answered again', async () => (await ageS()) < 0.5);
  });
});
