/** The real SDK with exporters that keep what they get. */

import { context, propagation } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import type { DataPoint, Histogram } from '@opentelemetry/sdk-metrics';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import type { ReadableSpan, Sampler } from '@opentelemetry/sdk-trace';

import { Instrumentation } from '../../../src/telemetry/instrumentation.ts';
import type { InstrumentationOptions } from '../../../src/telemetry/instrumentation.ts';

export interface Harness {
  readonly instrumentation: Instrumentation;
  readonly tracerProvider: TracerProvider;
  readonly meterProvider: MeterProvider;
  spans(name?: string): ReadableSpan[];
  points(name: string): Promise<{ attributes: Record<string, unknown>; value: number | Histogram }[]>;
  stop(): Promise<void>;
}

export function startHarness(options: InstrumentationOptions & { sampler?: Sampler } = {}): Harness {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const spanExporter = new InMemorySpanExporter();
  const tracerProvider = new TracerProvider({
    ...(options.sampler ? { sampler: options.sampler } : {}),
    spanProcessors: [new SimpleSpanProcessor({ exporter: spanExporter })],
  });
  const metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: metricExporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  return {
    instrumentation: new Instrumentation({ ...options, tracerProvider, meterProvider }),
    tracerProvider,
    meterProvider,
    spans: name => spanExporter.getFinishedSpans().filter(span => name === undefined || span.name === name),
    async points(name) {
      const { resourceMetrics } = await reader.collect();
      const all = resourceMetrics.scopeMetrics.flatMap(scoped => scoped.metrics);
      const points = all.filter(metric => metric.descriptor.name === name).flatMap(metric => metric.dataPoints as DataPoint<number | Histogram>[]);
      return points.map(({ attributes, value }) => ({ attributes, value }));
    },
    async stop() {
      await Promise.all([tracerProvider.shutdown(), meterProvider.shutdown()]);
      context.disable();
      propagation.disable();
    },
  };
}

export function parentOf(span: ReadableSpan): string | undefined {
  return span.parentSpanContext?.spanId;
}
