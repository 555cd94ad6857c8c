import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { startHttp } from '../support/agents/http-rig.ts';
import type { HttpRig } from '../support/agents/http-rig.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user-1', threadId: 'thread-1' };
const traceId = '0af7651916cd43dd8448eb211c80319c';
const traceparent = `00-${traceId}-b7ad6b7169203331-01`;

const exporter = new InMemorySpanExporter();
const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });

let rig: HttpRig;
beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(provider);
});
afterAll(async () => {
  await provider.shutdown();
  trace.disable();
  propagation.disable();
  context.disable();
});
beforeEach(async () => {
  rig = await startHttp();
  exporter.reset();
});
afterEach(() => rig.close());

const spans = async (count: number) => {
  await until(`${count} spans ended`, () => exporter.getFinishedSpans().length >= count);
  return exporter.getFinishedSpans();
};

describe('a request', () => {
  it('is a server span in its caller’s trace, and the work runs inside it', async () => {
    let inside: string | undefined;
    rig.service.onSend = ({ signal }) => {
      inside = trace.getActiveSpan()?.spanContext().spanId;
      return { action: 'wake', runId: 'r', signal: { ...signal, id: 's', createdAt: '2026-01-02T03:04:05.678Z' }, duplicate: false };
    };
    // Larger than one read of the socket, so that the body is parsed in a later turn of the event loop.
    await rig.post('/api/agents/echo/send-message', { ...thread, message: 'x'.repeat(90_000) }, { traceparent });
    const [span] = await spans(1);
    expect(span).toMatchObject({ name: 'POST /api/agents/:agentId/send-message', kind: SpanKind.SERVER });
    expect(span?.spanContext().traceId).toBe(traceId);
    expect(span?.parentSpanContext?.spanId).toBe('b7ad6b7169203331');
    expect(inside).toBe(span?.spanContext().spanId);
    expect(span?.attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.route': '/api/agents/:agentId/send-message',
      'http.response.status_code': 200,
      'url.path': '/api/agents/echo/send-message',
    });
    expect(span?.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('that fails on our side is an error, that of a caller is none', async () => {
    rig.service.failure = new Error('boom');
    await rig.post('/api/agents/echo/send-message', { ...thread, message: 'x' });
    await rig.post('/api/agents/echo/send-message', {});
    const [ours, theirs] = await spans(2);
    expect([ours?.status.code, ours?.attributes['error.type']]).toEqual([SpanStatusCode.ERROR, '500']);
    expect([theirs?.status.code, theirs?.attributes['http.response.status_code']]).toEqual([SpanStatusCode.UNSET, 400]);
  });

  it('for a probe or an unknown path makes no name of its own', async () => {
    await fetch(`${rig.url}/livez`);
    await fetch(`${rig.url}/api/secret/thread-4711`);
    const ended = await spans(1);
    expect(ended.map(span => span.name)).toEqual(['GET']);
  });

  it('of a viewer ends with the stream', async () => {
    const controller = new AbortController();
    const options = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(thread) };
    await fetch(`${rig.url}/api/agents/echo/threads/subscribe`, { ...options, signal: controller.signal });
    expect(exporter.getFinishedSpans()).toEqual([]);
    controller.abort();
    expect((await spans(1))[0]?.name).toBe('POST /api/agents/:agentId/threads/subscribe');
  });
});
