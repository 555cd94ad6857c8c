/** The receiver that other tests rely on reads what the real exporters send. */

import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { expect, test } from 'vitest';

import { startOtlpReceiver } from '../support/otlp-receiver.ts';

const resource = resourceFromAttributes({ 'service.name': 'sender', 'service.instance.id': 'sender-1' });

test('spans arrive with their parent, links, attributes, status and resource', async () => {
  const receiver = await startOtlpReceiver();
  const exporter = new OTLPTraceExporter({ url: `${receiver.url}/v1/traces` });
  const provider = new TracerProvider({ resource, spanProcessors: [new BatchSpanProcessor({ exporter })] });
  const tracer = provider.getTracer('scope');
  const other = tracer.startSpan('other', {}, ROOT_CONTEXT);
  const parent = tracer.startSpan('parent', { kind: SpanKind.PRODUCER }, ROOT_CONTEXT);
  const child = tracer.startSpan(
    'child',
    {
      attributes: { text: 'a', whole: 7, negative: -7, half: 0.5, yes: true, no: false, list: ['x', 'y'] },
      links: [{ context: other.spanContext(), attributes: { why: 'because' } }],
    },
    trace.setSpan(ROOT_CONTEXT, parent),
  );
  child.addEvent('seen', { times: 2 }).setStatus({ code: SpanStatusCode.ERROR, message: 'no' });
  for (const span of [child, parent, other]) span.end();
  await provider.shutdown();

  const spans = receiver.spans();
  await receiver.stop();
  expect(spans.map(span => span.name)).toEqual(['child', 'parent', 'other']);
  expect(spans[0]).toMatchObject({
    traceId: parent.spanContext().traceId,
    spanId: child.spanContext().spanId,
    parentSpanId: parent.spanContext().spanId,
    kind: 'INTERNAL',
    attributes: { text: 'a', whole: 7, negative: -7, half: 0.5, yes: true, no: false, list: ['x', 'y'] },
    links: [{ ...idsOf(other), attributes: { why: 'because' } }],
    events: [{ name: 'seen', attributes: { times: 2 } }],
    status: { code: 'ERROR', message: 'no' },
    resource: { 'service.name': 'sender', 'service.instance.id': 'sender-1' },
    scope: 'scope',
  });
  expect(spans[0]!.endNs).toBeGreaterThanOrEqual(spans[0]!.startNs);
  expect(spans[1]).toMatchObject({ kind: 'PRODUCER', status: { code: 'UNSET' } });
  expect(spans[1]).not.toHaveProperty('parentSpanId');
});

test('sums, gauges and histograms arrive with their values, and the latest state counts', async () => {
  const receiver = await startOtlpReceiver();
  const exporter = new OTLPMetricExporter({ url: `${receiver.url}/v1/metrics` });
  const provider = new MeterProvider({ resource, readers: [new PeriodicExportingMetricReader({ exporter })] });
  const meter = provider.getMeter('scope');
  const counter = meter.createCounter('c', { unit: '{thing}' });
  counter.add(2, { kind: 'a' });
  await provider.forceFlush();
  counter.add(3, { kind: 'a' });
  meter.createUpDownCounter('u').add(-4);
  meter.createGauge('g').record(0.5);
  meter.createHistogram('h', { unit: 's', advice: { explicitBucketBoundaries: [1, 2] } }).record(1.5);
  await provider.shutdown();

  const byName = Object.fromEntries(receiver.metrics().map(metric => [metric.name, metric]));
  await receiver.stop();
  expect(byName['c']).toMatchObject({ type: 'sum', monotonic: true, unit: '{thing}' });
  expect(byName['c']!.points).toEqual([{ attributes: { kind: 'a' }, value: 5 }]);
  expect(byName['u']).toMatchObject({ type: 'sum', monotonic: false, points: [{ value: -4 }] });
  expect(byName['g']).toMatchObject({ type: 'gauge', points: [{ value: 0.5 }] });
  expect(byName['h']!.points).toEqual([{ attributes: {}, count: 1, sum: 1.5, bounds: [1, 2], bucketCounts: [0, 1, 0] }]);
});

function idsOf(span: { spanContext(): { traceId: string; spanId: string } }) {
  const { traceId, spanId } = span.spanContext();
  return { traceId, spanId };
}
