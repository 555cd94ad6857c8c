/** What a person on call sees of real pods: traces over a crash, the metrics page, and an exit that telemetry does not hold up. */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { gateAt } from '../support/agents/gated-agent.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import type { OtlpReceiver, ReceivedSpan } from '../support/otlp-receiver.ts';
import { checkMetrics } from '../support/prometheus-server.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';

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

async function start(name: string, env: Record<string, string> = {}): Promise<RuntimeProcess> {
  const runtime = await startRuntime({
    name,
    env: {
      REDIS_URL: redis.url,
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_BSP_SCHEDULE_DELAY: '50',
      // Long enough for a busy machine to keep it, renewed often enough to be seen doing so.
      MASTRA_AGENT_THREAD_LEASE_TTL_MS: '5000',
      MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS: '500',
      MASTRA_AGENT_THREAD_LEASE_SWEEP_INTERVAL_MS: '200',
      AGENT_MODULE: new URL('../support/agents/gated-agent.ts', import.meta.url).pathname,
      GATE_REDIS_URL: redis.url,
      LOG_LEVEL: 'info',
      ...env,
    },
  });
  processes.push(runtime);
  return runtime;
}

async function send(process: RuntimeProcess, message: string, headers: Record<string, string> = {}): Promise<void> {
  const response = await fetch(`${process.url}/api/agents/gated/send-message`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ message, resourceId: 'ada-lovelace', threadId: 'her-engine' }),
  });
  expect(response.status).toBe(200);
}

const named = (name: string) => receiver.spans().filter(span => span.name === name);
const instanceOf = (span: ReceivedSpan) => String(span.resource['service.instance.id']);

test('after a crash the traces tell who took over, and lead back to the signal', async () => {
  const a = await start('a');
  const gate = gateAt(redis.url);
  try {
    await send(a, 'first', { traceparent: `00-${traceId}-b7ad6b7169203331-01` });
    await gate.entered('first');
    await until('the first pod showed its lease', () => named('lease.acquire').some(span => span.traceId === traceId));
    const c = await start('c');
    a.kill('SIGKILL');
    await a.exited();
    await gate.open();
    await until('the run on the other pod was seen', () => named('thread.run').length > 0);
    await until('its claim was seen', () => named('lease.acquire').some(span => instanceOf(span).startsWith('c.')));
    c.kill('SIGTERM');
    expect(await c.exited()).toBe(0);
  } finally {
    await gate.close();
  }
  const [route] = named('signal.route');
  const [run] = named('thread.run');
  const before = named('lease.acquire').find(span => span.traceId === traceId)!;
  const after = named('lease.acquire').find(span => instanceOf(span).startsWith('c.') && span.attributes['outcome'] === 'acquired')!;
  expect(instanceOf(route!)).toMatch(/^a\./);
  expect(instanceOf(run!)).toMatch(/^c\./);
  // A redelivery has a trace of its own, with links to the signal and to the claim.
  expect(run!.traceId).not.toBe(traceId);
  expect(run!.parentSpanId).toBeUndefined();
  expect(run!.attributes).toMatchObject({ 'signals.run.attempt': 2, 'signals.agent.id': 'gated', end_reason: 'finished' });
  expect(run!.links.map(link => link.spanId)).toEqual([route!.spanId, after.spanId]);
  const token = (span: ReceivedSpan) => span.attributes['signals.lease.fencing_token'] as number;
  expect(token(after)).toBeGreaterThan(token(before));
  expect(token(run!)).toBe(token(after));
  expect(before.attributes['signals.lease.owner']).toMatch(/^a\./);
  expect(after.attributes['signals.lease.owner']).toMatch(/^c\./);
  // Who claimed it is nobody's request: the sweep's claim is a root.
  expect(after.parentSpanId).toBeUndefined();
  const [release] = named('lease.release');
  expect(release).toMatchObject({ traceId: run!.traceId, parentSpanId: run!.spanId });
});

test('renewals of a long run are roots that lead to its acquire', async () => {
  const a = await start('a');
  const gate = gateAt(redis.url);
  try {
    await send(a, 'first', { traceparent: `00-${traceId}-b7ad6b7169203331-01` });
    await gate.entered('first');
    await until('a renewal was seen', () => named('lease.renew').length > 0);
    await gate.open();
  } finally {
    await gate.close();
  }
  const [acquire] = named('lease.acquire');
  const [renew] = named('lease.renew');
  expect(renew!.parentSpanId).toBeUndefined();
  expect(renew!.traceId).not.toBe(traceId);
  expect(renew!.links.map(link => link.spanId)).toEqual([acquire!.spanId]);
  expect(renew!.attributes).toMatchObject({ outcome: 'renewed' });
});

test('the metrics page of a pod that worked is in order, and names no thread', async () => {
  const a = await start('a');
  const gate = gateAt(redis.url);
  try {
    await gate.open();
    await send(a, 'first');
    await gate.entered('first');
  } finally {
    await gate.close();
  }
  const page = async () => await fetch(`${a.metricsUrl}/metrics`).then(response => response.text());
  // The release comes last, after the run was counted.
  const released = 'signals_lease_operation_duration_seconds_count{operation="release",outcome="released"} 1\n';
  await until('the lease was released', async () => (await page()).includes(released));
  const text = await page();
  expect(text).toContain('signals_lease_operation_duration_seconds_count{operation="acquire",outcome="acquired"} 1\n');
  expect(text).toContain('signals_run_duration_seconds_count{end_reason="finished"} 1\n');
  expect(text).toContain('signals_route_decisions_total{decision="wake"} 1\n');
  expect(text).toContain('signals_lease_active 0\n');
  expect(text).toContain('signals_lease_ttl_seconds 5\n');
  expect(text).not.toMatch(/ada-lovelace|her-engine/);
  expect(await checkMetrics(text)).toBe('');
  const series = text.split('\n').flatMap(line => /^[^#\s]+/.exec(line) ?? []);
  expect(series.length).toBeGreaterThan(50);
  expect(series.filter((name, at) => series.indexOf(name) !== at)).toEqual([]);
});

test('a pod that was started with another SDK keeps it, and its own metrics page', async () => {
  const other = new URL('../support/other-sdk.ts', import.meta.url).pathname;
  const a = await start('a', { NODE_OPTIONS: `--import=${other}`, OTHER_SDK_URL: receiver.url });
  const gate = gateAt(redis.url);
  try {
    await gate.open();
    await send(a, 'first');
    await gate.entered('first');
  } finally {
    await gate.close();
  }
  await until('the run was seen', () => named('thread.run').length > 0);
  const services = new Set(receiver.spans().map(span => span.resource['service.name']));
  expect([...services]).toEqual(['the other one']);
  expect(await fetch(`${a.metricsUrl}/metrics`).then(response => response.text())).toContain('signals_lease_active ');
  expect(a.logs().join('\n')).toContain('another OpenTelemetry SDK is registered and is kept');
});

test('a collector that is silent does not hold up a drain past its limit', async () => {
  const a = await start('a');
  const gate = gateAt(redis.url);
  try {
    await gate.open();
    receiver.answer('hang');
    await send(a, 'first');
    await gate.entered('first');
    await until('something hangs', () => receiver.requests() > 0);
    a.kill('SIGTERM');
    expect(await a.exited()).toBe(0);
  } finally {
    await gate.close();
  }
  // It is the limit that ended the wait: left to itself the exporter tries for 10 s and more.
  expect(a.logs().join('\n')).toContain('telemetry was not all sent in time');
});
