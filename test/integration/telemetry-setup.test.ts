/** The SDK as a pod starts it, against a real OTLP receiver and a real Prometheus. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { context, diag, metrics, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { TracerProvider } from '@opentelemetry/sdk-trace';
import { afterEach, expect, test } from 'vitest';

import type { Logger } from '../../src/core/logger.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Instrumentation } from '../../src/telemetry/instrumentation.ts';
import { instrumentLeases } from '../../src/telemetry/instrumented-leases.ts';
import { observeDrain, observeReload } from '../../src/telemetry/lifecycle.ts';
import { metricTable } from '../../src/telemetry/names.ts';
import { TelemetryObserver } from '../../src/telemetry/observer.ts';
import { startRuntimeMetrics } from '../../src/telemetry/runtime-metrics.ts';
import { metricsContentType, startTelemetry } from '../../src/telemetry/setup.ts';
import type { Telemetry } from '../../src/telemetry/setup.ts';
import { MemoryLeaseProvider } from '../../src/memory/memory-leases.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import type { OtlpReceiver, ReceivedMetric } from '../support/otlp-receiver.ts';
import { checkMetrics, startPrometheus } from '../support/prometheus-server.ts';
import { until } from '../support/until.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  for (const api of [trace, metrics, context, propagation, diag]) api.disable();
});

async function start(environment: Record<string, string> = {}, logger: Logger = silentLogger): Promise<Telemetry> {
  const telemetry = await startTelemetry({
    serviceName: 'signals-runtime',
    instanceId: 'pod-a.1234',
    version: '1.2.3',
    environment,
    logger,
  });
  cleanups.push(() => telemetry.shutdown(1000));
  return telemetry;
}

async function receiver(): Promise<OtlpReceiver> {
  const started = await startOtlpReceiver();
  cleanups.push(() => started.stop());
  return started;
}

function recording(): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  const write = (message: string, fields: object = {}) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  return { lines, logger: { debug() {}, info: write, warn: write, error: write } };
}

/** Lets every instrument of ours record something. */
async function exercise(instrumentation: Instrumentation, threads = 1): Promise<void> {
  const observer = new TelemetryObserver(instrumentation);
  const leases = instrumentLeases(new MemoryLeaseProvider(), instrumentation);
  for (let at = 0; at < threads; at++) {
    const thread = { resourceId: `user-${at}`, threadId: `thread-${at}` };
    const key = `thread:${at}`;
    await leases.acquireLease(key, `pod-a/${at}`, 15_000);
    await leases.renewLease(key, `pod-a/${at}`, 15_000);
    await leases.transferLease(key, `pod-a/${at}`, `pod-b/${at}`, 15_000);
    await leases.releaseLease(key, `pod-b/${at}`);
    observer.held(key);
    observer.renewed(key, 0.7);
    observer.routed('wake');
    observer.takenOver(thread);
    observer.runStarted({ agentId: `agent-${at}`, runId: `run-${at}`, thread, attempt: 1, signalCount: 1 }).end('finished');
    observer.ended(key, 'released', 20);
  }
  instrumentation.instruments.leaseHandoffGap.record(0.01);
  instrumentation.instruments.leaseFenceRejections.add(1);
  observeReload(instrumentation, 'environment', () => ({ status: 'applied' as const, problems: [] }));
  await observeDrain(instrumentation, () => Promise.resolve({ abandoned: 0 }));
}

function startGauges(instrumentation: Instrumentation, backlog = { waiting: 3, oldestAgeMs: 1500 }): void {
  const running = startRuntimeMetrics({
    instrumentation,
    settings: () => ({ ttlMs: 15_000, renewIntervalMs: 5000 }),
    backlog: () => Promise.resolve(backlog),
  });
  cleanups.push(() => running.stop());
}

/** What Prometheus calls them, written down by hand from the table of the design and the specification. */
const expectedNames: Record<string, string> = {
  'signals.lease.operation.duration': 'signals_lease_operation_duration_seconds',
  'signals.lease.active': 'signals_lease_active',
  'signals.lease.hold.duration': 'signals_lease_hold_duration_seconds',
  'signals.lease.renewal.headroom': 'signals_lease_renewal_headroom',
  'signals.lease.handoff.gap': 'signals_lease_handoff_gap_seconds',
  'signals.lease.takeovers': 'signals_lease_takeovers_total',
  'signals.lease.fence.rejections': 'signals_lease_fence_rejections_total',
  'signals.lease.ttl': 'signals_lease_ttl_seconds',
  'signals.lease.renew_interval': 'signals_lease_renew_interval_seconds',
  'signals.route.decisions': 'signals_route_decisions_total',
  'signals.run.active': 'signals_run_active',
  'signals.run.duration': 'signals_run_duration_seconds',
  'signals.inbox.waiting': 'signals_inbox_waiting',
  'signals.inbox.oldest.age': 'signals_inbox_oldest_age_seconds',
  'signals.inbox.ended': 'signals_inbox_ended_total',
  'signals.stream.redeliveries': 'signals_stream_redeliveries_total',
  'signals.stream.dead_letters': 'signals_stream_dead_letters_total',
  'signals.config.reloads': 'signals_config_reloads_total',
  'signals.config.source.troubles': 'signals_config_source_troubles_total',
  'signals.drain.duration': 'signals_drain_duration_seconds',
  'signals.drain.leases': 'signals_drain_leases_total',
  'nodejs.eventloop.delay.p99': 'nodejs_eventloop_delay_p99_seconds',
  'process.cpu.time': 'process_cpu_time_seconds_total',
  'process.memory.usage': 'process_memory_usage_bytes',
  'process.uptime': 'process_uptime_seconds',
};

function prometheusType(metric: ReceivedMetric): string {
  if (metric.type === 'sum') return metric.monotonic ? 'counter' : 'gauge';
  return metric.type;
}

test('a scraped Prometheus and an OTLP receiver know every metric of the table by the same names, types and labels', async () => {
  const otlp = await receiver();
  const telemetry = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url, OTEL_METRIC_EXPORT_INTERVAL: '200' });
  const instrumentation = new Instrumentation();
  await exercise(instrumentation);
  startGauges(instrumentation);
  const server = createServer((_request, response) => {
    void telemetry.collectMetrics().then(text => response.writeHead(200, { 'content-type': metricsContentType }).end(text));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => server.close().closeAllConnections());
  const prometheus = await startPrometheus([`127.0.0.1:${(server.address() as AddressInfo).port}`]);
  cleanups.push(() => prometheus.stop());

  const ours = () => otlp.metrics().filter(metric => metric.name in expectedNames);
  await until('everything was sent and scraped', async () => {
    const names = await prometheus.metricNames();
    return names.includes('signals_inbox_oldest_age_seconds') && ours().length === Object.keys(expectedNames).length;
  });
  expect(ours().map(metric => metric.name).sort()).toEqual(Object.keys(expectedNames).sort());
  expect(Object.values(metricTable).map(metric => metric.name).sort()).toEqual(Object.keys(expectedNames).sort());

  const metadata = await prometheus.metadata();
  for (const metric of ours()) {
    const name = expectedNames[metric.name]!;
    expect([name, metadata[name]]).toEqual([name, { type: prometheusType(metric), help: metric.description, unit: '' }]);
    const series = await prometheus.query(metric.type === 'histogram' ? `${name}_count` : name);
    const labels = series.map(({ metric: { __name__: _name, instance: _instance, job: _job, ...rest } }) => rest);
    const attributes = metric.points.map(point => toLabels(point.attributes));
    expect(sorted(labels)).toEqual(sorted(attributes));
  }
  const [info] = await prometheus.query('target_info');
  expect(info!.metric).toMatchObject({
    service_name: 'signals-runtime',
    service_instance_id: 'pod-a.1234',
    service_version: '1.2.3',
  });
  expect((await prometheus.query('signals_lease_ttl_seconds'))[0]!.value).toBe(15);
  expect((await prometheus.query('signals_inbox_oldest_age_seconds'))[0]!.value).toBe(1.5);
});

function toLabels(attributes: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name.replaceAll('.', '_'), String(value)]));
}

function sorted(labels: readonly Record<string, string>[]): string[] {
  return labels.map(each => JSON.stringify(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))).sort();
}

test('promtool has nothing to say about the text', async () => {
  const telemetry = await start();
  const instrumentation = new Instrumentation();
  await exercise(instrumentation);
  startGauges(instrumentation);
  await until('the gauges are known', async () => (await telemetry.collectMetrics()).includes('signals_inbox_oldest_age'));
  const text = await telemetry.collectMetrics();
  expect(text).toContain('# TYPE signals_lease_operation_duration_seconds histogram\n');
  expect(text).toContain('signals_lease_operation_duration_seconds_bucket{operation="acquire",outcome="acquired",le="0.005"}');
  expect(await checkMetrics(text)).toBe('');
});

test('promtool would object to what is wrong', async () => {
  expect(await checkMetrics('# HELP wrong_milliseconds x\n# TYPE wrong_milliseconds counter\nwrong_milliseconds 1\n')).not.toBe('');
});

test('100,000 threads have the series of one, and no id is in the text', async () => {
  const telemetry = await start();
  const instrumentation = new Instrumentation();
  await exercise(instrumentation, 1);
  const seriesOf = (text: string) => text.split('\n').filter(line => line && !line.startsWith('#')).map(line => line.replace(/ \S+$/, ''));
  const before = seriesOf(await telemetry.collectMetrics());
  await exercise(instrumentation, 100_000);
  const after = await telemetry.collectMetrics();
  expect(seriesOf(after)).toEqual(before);
  expect(after).toContain('signals_run_duration_seconds_count{end_reason="finished"} 100001');
  expect(after).not.toMatch(/user-\d|thread-\d|run-\d|agent-\d|pod-b/);
});

test('a label that runs wild is cut off', async () => {
  const telemetry = await start();
  const counter = metrics.getMeter('wild').createCounter('wild');
  for (let at = 0; at < 5000; at++) counter.add(1, { id: at });
  const lines = (await telemetry.collectMetrics()).split('\n').filter(line => line.startsWith('wild_total{'));
  expect(lines.length).toBeLessThanOrEqual(500);
  expect(lines.filter(line => line.includes('otel_metric_overflow'))).toHaveLength(1);
});

test('what is not known is absent, and 0 is 0', async () => {
  const telemetry = await start();
  const instrumentation = new Instrumentation();
  let answer: () => Promise<{ waiting: number } | undefined> = () => Promise.reject(new Error('away'));
  const running = startRuntimeMetrics({
    instrumentation,
    settings: () => ({ ttlMs: 15_000, renewIntervalMs: 5000 }),
    backlog: () => answer(),
    backlogIntervalMs: 10,
  });
  cleanups.push(() => running.stop());
  const waiting = async () => /^signals_inbox_waiting (\S+)$/m.exec(await telemetry.collectMetrics())?.[1];
  expect(await waiting()).toBeUndefined();
  answer = () => Promise.resolve({ waiting: 0 });
  await until('it is known', async () => (await waiting()) === '0');
  answer = () => Promise.reject(new Error('away'));
  await until('it is unknown again', async () => (await waiting()) === undefined);
  answer = () => Promise.resolve({ waiting: 4 });
  await until('it is known again', async () => (await waiting()) === '4');
  answer = () => new Promise(() => {}); // a store that hangs
  await until('an old answer is no answer', async () => (await waiting()) === undefined);
});

test('an event loop that was held up shows', async () => {
  const telemetry = await start();
  startGauges(new Instrumentation());
  const delay = async () => Number(/^nodejs_eventloop_delay_p99_seconds (\S+)$/m.exec(await telemetry.collectMetrics())?.[1]);
  await until('the loop is watched', async () => !Number.isNaN(await delay()));
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
  await until('the delay shows', async () => (await delay()) >= 0.35);
});

test('spans arrive with who sent them, and with the pod', async () => {
  const otlp = await receiver();
  const telemetry = await start({
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${otlp.url}/v1/traces`,
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=a%20test,service.instance.id=forged',
    POD_NAME: 'pod-a',
    POD_NAMESPACE: 'agents',
  });
  new Instrumentation().tracer.startSpan('thread.run').end();
  await telemetry.shutdown(5000);
  expect(otlp.spans().map(span => span.name)).toEqual(['thread.run']);
  expect(otlp.spans()[0]!.resource).toMatchObject({
    'service.name': 'signals-runtime',
    'service.instance.id': 'pod-a.1234',
    'service.version': '1.2.3',
    'k8s.pod.name': 'pod-a',
    'k8s.namespace.name': 'agents',
    'deployment.environment.name': 'a test',
  });
  // Only traces have an endpoint.
  expect(otlp.metrics()).toEqual([]);
});

test('without an endpoint nothing is sent or said, and the trace of a caller is passed on', async () => {
  const { logger, lines } = recording();
  const telemetry = await start({}, logger);
  const caller = propagation.extract(ROOT_CONTEXT, { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' });
  const observer = new TelemetryObserver(new Instrumentation());
  const carrier = context.with(caller, () => observer.carrier());
  expect(carrier?.['traceparent']).toContain('0af7651916cd43dd8448eb211c80319c');
  await telemetry.shutdown(1000);
  expect(lines).toEqual([]);
});

test('a collector that is silent does not hold up the exit', async () => {
  const otlp = await receiver();
  otlp.answer('hang');
  const { logger, lines } = recording();
  const telemetry = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url }, logger);
  for (let at = 0; at < 3000; at++) trace.getTracer('test').startSpan('span').end();
  // Left to themselves the exporters try for 10 s and more.
  await telemetry.shutdown(300);
  expect(lines).toContain('telemetry was not all sent in time {"limitMs":300}');
});

test('a collector that cannot be reached is said once, not with every attempt', async () => {
  const otlp = await startOtlpReceiver();
  await otlp.stop();
  const { logger, lines } = recording();
  const often = { OTEL_BSP_SCHEDULE_DELAY: '10', OTEL_METRIC_EXPORT_INTERVAL: '10', OTEL_EXPORTER_OTLP_TIMEOUT: '50' };
  await start({ OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url, ...often }, logger);
  const tracer = trace.getTracer('test');
  const busy = setInterval(() => tracer.startSpan('span').end(), 5);
  cleanups.push(() => clearInterval(busy));
  await until('it was said', () => lines.length > 0);
  for (let round = 0; round < 20; round++) await new Promise(resolve => setTimeout(resolve, 10));
  expect(lines.length).toBeLessThanOrEqual(4);
  expect(lines[0]).toMatch(/^telemetry failed \{"detail":"connect ECONNREFUSED 127\.0\.0\.1:\d+","repeated":0\}$/);
});

test('another SDK that is registered is kept, for traces and metrics each', async () => {
  const theirs = new TracerProvider();
  trace.setGlobalTracerProvider(theirs);
  const { logger, lines } = recording();
  const otlp = await receiver();
  const telemetry = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url }, logger);
  expect(trace.getTracer('x')).toBe(theirs.getTracer('x'));
  expect(lines).toEqual(['another OpenTelemetry SDK is registered and is kept {"traces":true,"metrics":false}']);
  // Nor are its context and propagation touched; what is missing is filled in.
  expect(propagation.fields()).toEqual([]);
  new Instrumentation().instruments.leaseTakeovers.add(1);
  expect(await telemetry.collectMetrics()).toContain('signals_lease_takeovers_total 1');
  await telemetry.shutdown(1000);
  expect(otlp.spans()).toEqual([]);
});

test('metrics of another SDK stay with it', async () => {
  const theirs = new MeterProvider();
  metrics.setGlobalMeterProvider(theirs);
  const { logger } = recording();
  const telemetry = await start({}, logger);
  expect(metrics.getMeterProvider()).toBe(theirs);
  expect(await telemetry.collectMetrics()).toMatch(/^# /);
});

test('an endpoint that is no URL stops the start with its name, without its credentials', async () => {
  await expect(start({ OTEL_EXPORTER_OTLP_ENDPOINT: 'user:s3cret@collector' })).rejects.toMatchObject({
    code: 'SIG_SETTINGS_INVALID',
    message: expect.stringMatching(/^OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL, got/) as string,
  });
  await expect(start({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'grpc://u:s3cret@collector:4317' })).rejects.toThrow(
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be an http or https URL, got "grpc://***@collector:4317"',
  );
});

test('how traces are drawn can be set, and a setting that makes no sense stops the start', async () => {
  expect((await start()).tracing).toEqual({ parentDecides: true });
  const { tracing } = await start({ TRACE_HASH_IDS: 'true', TRACE_RENEWALS: '1', TRACE_RUNS: 'link', TRACE_PROMPT_LIMIT_MS: '5000' });
  expect(tracing).toEqual({ hashIds: true, renewalSampling: 1, runTrace: 'link', promptLimitMs: 5000, parentDecides: true });
  for (const sampler of ['traceidratio', 'always_on']) {
    expect((await start({ OTEL_TRACES_SAMPLER: sampler })).tracing, 'each span is decided on').toEqual({ parentDecides: false });
  }
  await expect(start({ TRACE_RUNS: 'sometimes' })).rejects.toThrow('TRACE_RUNS must be one of prompt, parent, link, got "sometimes"');
  await expect(start({ TRACE_RENEWALS: '-1' })).rejects.toMatchObject({ code: 'SIG_SETTINGS_INVALID' });
  await expect(start({ TRACE_HASH_IDS: 'yes' })).rejects.toThrow('TRACE_HASH_IDS must be true or false, got "yes"');
});

test('switched off means off', async () => {
  const otlp = await receiver();
  const telemetry = await start({ OTEL_SDK_DISABLED: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url });
  new Instrumentation().tracer.startSpan('span').end();
  await telemetry.shutdown(1000);
  expect(otlp.requests()).toBe(0);
  expect(await telemetry.collectMetrics()).toMatch(/^# /);
});
