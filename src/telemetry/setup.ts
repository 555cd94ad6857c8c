/**
 * Starts the OpenTelemetry SDK: the only place that knows it. Everything else uses the API and works, silently, without this.
 *
 * - Traces and metrics go out over OTLP (http/protobuf) where `OTEL_EXPORTER_OTLP_*ENDPOINT` says, and nowhere by default.
 * - Metrics can always be read as Prometheus text, under the same names.
 * - Where another SDK is registered already (an operator's auto-instrumentation), it is kept: we fill only what is missing.
 */

import { context, createNoopMeter, diag, DiagLogLevel, metrics, propagation, ProxyTracerProvider, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import type { Resource } from '@opentelemetry/resources';
import { AggregationType, InstrumentType, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import type { IMetricReader, ViewOptions } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';

import { systemClock } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { settledWithin } from '../core/waits.ts';
import { operationSeconds } from './names.ts';
import { Diagnostics } from './setup/diagnostics.ts';
import { isDisabled, otlpEndpoint, wholeNumber } from './setup/environment.ts';
import type { Environment } from './setup/environment.ts';
import { exportingKnownOnly } from './setup/known-values.ts';
import { PrometheusText } from './setup/prometheus-text.ts';
import { hashedTopics } from './setup/hashed-topics.ts';
import { createResource } from './setup/resource.ts';
import type { Identity } from './setup/resource.ts';
import { createSampler, leavesToParent } from './setup/sampler.ts';
import { ShownIds } from './shown-ids.ts';
import { parseTraceSettings } from './trace-settings.ts';
import type { TraceSettings } from './trace-settings.ts';

export interface TelemetryOptions extends Identity {
  readonly environment: Environment;
  readonly logger: Logger;
}

export interface Telemetry {
  /** How traces are to be drawn, for `new Instrumentation(...)`. */
  readonly tracing: TraceSettings;
  /** Prometheus text, format 0.0.4. Never rejects. */
  collectMetrics(): Promise<string>;
  /** Sends what is left and stops, within `limitMs` whatever the collector does. Never rejects. */
  shutdown(limitMs: number): Promise<void>;
}

export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8';

/** Series of one metric, attributes of any future bug included; the rest is counted as `otel_metric_overflow`. */
const seriesLimit = 500;

interface Started {
  /** Another SDK may keep what it likes. */
  readonly ownTraces: boolean;
  readonly metricsText: (() => Promise<string>) | undefined;
  readonly stops: readonly (() => Promise<void>)[];
}

/** Once per process. Throws `SIG_SETTINGS_INVALID` for a variable that makes no sense, and nothing else. */
export function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  // Asynchronous only to the outside, so that a resource that has to be asked for can come later.
  return new Promise(resolve => {
    const tracing = parseTraceSettings(options.environment);
    const started = start(options, tracing);
    const parentDecides = started.ownTraces && leavesToParent(options.environment);
    resolve(telemetryOf(started, { ...tracing, parentDecides }, options.logger));
  });
}

function start(options: TelemetryOptions, tracing: TraceSettings): Started {
  const { environment, logger } = options;
  if (isDisabled(environment)) return { ownTraces: false, metricsText: undefined, stops: [] };
  const endpoints = {
    traces: otlpEndpoint(environment, 'traces', logger),
    metrics: otlpEndpoint(environment, 'metrics', logger),
  };
  const resource = createResource(options, environment);
  const foreign = { traces: hasTracerProvider(), metrics: hasMeterProvider() };
  if (foreign.traces || foreign.metrics) {
    logger.info('another OpenTelemetry SDK is registered and is kept', foreign);
  } else {
    const logLevel = diagLevel(environment['OTEL_LOG_LEVEL']);
    diag.setLogger(new Diagnostics(logger), { logLevel, suppressOverrideMessage: true });
  }
  const stops: (() => Promise<void>)[] = [];
  if (!foreign.traces) {
    registerContext();
    if (endpoints.traces !== undefined) stops.push(startTraces(endpoints.traces, resource, options, tracing));
  }
  const ownTraces = !foreign.traces;
  if (foreign.metrics) return { ownTraces, metricsText: undefined, stops };
  const text = new PrometheusText(seriesLimit, logger);
  stops.push(startMetrics([text, ...otlpReader(endpoints.metrics, options)], resource));
  return { ownTraces, metricsText: () => text.text(), stops };
}

/** Also without an exporter: the trace of whoever calls us is passed on, whether we add to it or not. */
function registerContext(): void {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const propagators = [new W3CTraceContextPropagator(), new W3CBaggagePropagator()];
  propagation.setGlobalPropagator(new CompositePropagator({ propagators }));
}

function startTraces(url: string, resource: Resource, options: TelemetryOptions, { hashIds = false }: TraceSettings): () => Promise<void> {
  const { environment, logger } = options;
  const number = (name: string) => wholeNumber(environment, name, 1, logger);
  const provider = new TracerProvider({
    resource,
    sampler: createSampler(environment, logger),
    spanProcessors: [
      ...(hashIds ? [hashedTopics(new ShownIds(true))] : []),
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter({ url, ...exportLimit('TRACES', environment, logger) }),
        ...given('scheduledDelayMillis', number('OTEL_BSP_SCHEDULE_DELAY')),
        ...given('exportTimeoutMillis', number('OTEL_BSP_EXPORT_TIMEOUT')),
        ...given('maxQueueSize', number('OTEL_BSP_MAX_QUEUE_SIZE')),
        ...given('maxExportBatchSize', number('OTEL_BSP_MAX_EXPORT_BATCH_SIZE')),
      }),
    ],
  });
  trace.setGlobalTracerProvider(provider);
  return () => provider.shutdown();
}

function startMetrics(readers: IMetricReader[], resource: Resource): () => Promise<void> {
  const provider = new MeterProvider({ resource, readers, views: [messagingView] });
  metrics.setGlobalMeterProvider(provider);
  return () => provider.shutdown();
}

/** The SDK's default buckets are made for milliseconds; the messaging conventions ask for these. */
const messagingView: ViewOptions = {
  instrumentName: 'messaging.*',
  instrumentType: InstrumentType.HISTOGRAM,
  aggregation: { type: AggregationType.EXPLICIT_BUCKET_HISTOGRAM, options: { boundaries: [...operationSeconds] } },
};

function otlpReader(url: string | undefined, { environment, logger }: TelemetryOptions): IMetricReader[] {
  if (url === undefined) return [];
  const intervalMs = wholeNumber(environment, 'OTEL_METRIC_EXPORT_INTERVAL', 1, logger) ?? 60_000;
  const timeoutMs = wholeNumber(environment, 'OTEL_METRIC_EXPORT_TIMEOUT', 1, logger) ?? 30_000;
  return [
    new PeriodicExportingMetricReader({
      exporter: exportingKnownOnly(new OTLPMetricExporter({ url, ...exportLimit('METRICS', environment, logger) })),
      exportIntervalMillis: intervalMs,
      exportTimeoutMillis: Math.min(timeoutMs, intervalMs),
      cardinalityLimits: { default: seriesLimit },
    }),
  ];
}

/** Longest time for one export, retries included. */
function exportLimit(signal: 'TRACES' | 'METRICS', environment: Environment, logger: Logger): { timeoutMillis?: number } {
  const own = wholeNumber(environment, `OTEL_EXPORTER_OTLP_${signal}_TIMEOUT`, 1, logger);
  return given('timeoutMillis', own ?? wholeNumber(environment, 'OTEL_EXPORTER_OTLP_TIMEOUT', 1, logger));
}

function telemetryOf(started: Started, tracing: TraceSettings, logger: Logger): Telemetry {
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    const results = await Promise.allSettled(started.stops.map(stopOne => stopOne()));
    for (const result of results) {
      if (result.status === 'rejected') logger.warn('telemetry was not all sent', { error: errorMessage(result.reason) });
    }
  };
  return {
    tracing,
    collectMetrics() {
      if (!started.metricsText) return Promise.resolve('# the metrics of this process are not ours to show\n');
      if (stopping) return Promise.resolve('# telemetry has stopped\n');
      return started.metricsText();
    },
    async shutdown(limitMs) {
      stopping ??= stop();
      if (await settledWithin(systemClock, limitMs, stopping)) return;
      logger.warn('telemetry was not all sent in time', { limitMs });
    },
  };
}

function hasTracerProvider(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider && provider.getDelegateTracer('probe') === undefined);
}

function hasMeterProvider(): boolean {
  return metrics.getMeterProvider().getMeter('probe') !== createNoopMeter();
}

function diagLevel(text: string | undefined): DiagLogLevel {
  const levels: Readonly<Record<string, DiagLogLevel>> = {
    none: DiagLogLevel.NONE,
    error: DiagLogLevel.ERROR,
    info: DiagLogLevel.INFO,
    debug: DiagLogLevel.DEBUG,
  };
  return levels[text?.trim().toLowerCase() ?? ''] ?? DiagLogLevel.WARN;
}

function given<Name extends string>(name: Name, value: number | undefined): { [Key in Name]?: number } {
  return value === undefined ? {} : ({ [name]: value } as { [Key in Name]?: number });
}
