/** One trace from a request to one process to the run on another, caught by a real OTLP receiver. */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import type { OtlpReceiver, ReceivedSpan } from '../support/otlp-receiver.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

let redis: RedisServer;
let receiver: OtlpReceiver;
let processes: RuntimeProcess[] = [];

beforeEach(async () => {
  redis = await startRedis();
  receiver = await startOtlpReceiver();
});

afterEach(async () => {
  await Promise.all(processes.map(process => process.destroy()));
  processes = [];
  await receiver.stop();
  await redis.stop();
});

async function start(name: string): Promise<RuntimeProcess> {
  const runtime = await startRuntime({
    name,
    env: {
      REDIS_URL: redis.url,
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_BSP_SCHEDULE_DELAY: '100',
      AGENT_MODULE: new URL('../support/agents/gated-agent.ts', import.meta.url).pathname,
      GATE_REDIS_URL: redis.url,
      LOG_LEVEL: 'warn',
    },
  });
  processes.push(runtime);
  return runtime;
}

async function post(process: RuntimeProcess, path: string, message: string, traceparent?: string): Promise<{ owner: string }> {
  const response = await fetch(`${process.url}/api/agents/gated/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(traceparent ? { traceparent } : {}) },
    body: JSON.stringify({ message, resourceId: 'user', threadId: 'thread' }),
  });
  expect(response.status).toBe(200);
  return (await response.json()) as { owner: string };
}

function named(name: string): ReceivedSpan[] {
  return receiver.spans().filter(span => span.name === name);
}

test('a request to one process and the run that it causes on another are one trace', async () => {
  const [a, b] = [await start('a'), await start('b')];
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const gate = await import('../support/agents/gated-agent.ts').then(module => module.gateAt(redis.url));
  try {
    expect((await post(b, 'send-message', 'first')).owner).toMatch(/^b\./);
    await gate.entered('first');
    expect((await post(a, 'queue-message', 'second', `00-${traceId}-b7ad6b7169203331-01`)).owner).toMatch(/^b\./);
    await gate.open();
    await until('the second run was seen', () => named('thread.run').some(span => span.traceId === traceId));
    await until('the request was seen', () => receiver.spans().some(span => span.traceId === traceId && span.name.startsWith('POST')));
  } finally {
    await gate.close();
  }
  const trace = receiver.spans().filter(span => span.traceId === traceId);
  const [request, route, run] = [
    trace.find(span => span.name.startsWith('POST'))!,
    trace.find(span => span.name === 'signal.route')!,
    trace.find(span => span.name === 'thread.run')!,
  ];
  expect(request.parentSpanId).toBe('b7ad6b7169203331');
  expect(route.parentSpanId).toBe(request.spanId);
  expect(run.parentSpanId).toBe(route.spanId);
  const instanceOf = (span: ReceivedSpan) => String(span.resource['service.instance.id']);
  expect(instanceOf(request)).toMatch(/^a\./);
  expect(instanceOf(run)).toMatch(/^b\./);

  await until('the lease was seen to change hands and end', () => named('lease.transfer').length > 0 && named('lease.release').length > 0);
  expect(named('lease.acquire')[0]?.attributes).toMatchObject({ outcome: 'acquired' });
  expect(named('lease.transfer')[0]?.attributes).toMatchObject({ outcome: 'transferred' });
  expect(named('lease.release')[0]?.attributes).toMatchObject({ outcome: 'released' });
});
