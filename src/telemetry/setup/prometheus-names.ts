/**
 * Prometheus names of our metrics, as the OpenTelemetry specification maps them and as collectors do
 * (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/). The serializer of the SDK writes the
 * text but adds no unit; without it the same metric would have one name through a collector and another when scraped.
 */

import type { MetricData, ResourceMetrics } from '@opentelemetry/sdk-metrics';
import { DataPointType } from '@opentelemetry/sdk-metrics';

const unitWords: Readonly<Record<string, string>> = {
  d: 'days',
  h: 'hours',
  min: 'minutes',
  s: 'seconds',
  ms: 'milliseconds',
  us: 'microseconds',
  ns: 'nanoseconds',
  By: 'bytes',
  KiBy: 'kibibytes',
  MiBy: 'mebibytes',
  GiBy: 'gibibytes',
  '%': 'percent',
  Cel: 'celsius',
  Hz: 'hertz',
};

/** The same data under the names that its units ask for. */
export function withPrometheusNames(metrics: ResourceMetrics): ResourceMetrics {
  return {
    resource: metrics.resource,
    scopeMetrics: metrics.scopeMetrics.map(scoped => ({ scope: scoped.scope, metrics: scoped.metrics.map(renamed) })),
  };
}

function renamed(metric: MetricData): MetricData {
  const unit = unitOf(metric);
  const { name } = metric.descriptor;
  // The serializer turns what is not allowed into `_` and appends `_total` to counters, which has to come last.
  const full = unit === '' || hasWord(name, unit) ? name : `${name.replace(/[._]total$/, '')}_${unit}`;
  return { ...metric, descriptor: { ...metric.descriptor, name: full, unit } };
}

function unitOf(metric: MetricData): string {
  const { unit } = metric.descriptor;
  if (unit === '1') return metric.dataPointType === DataPointType.GAUGE ? 'ratio' : '';
  const bare = unit.replace(/\{[^}]*\}/g, '');
  const [of = '', per] = bare.split('/');
  const words = [unitWords[of] ?? of, per ? `per_${(unitWords[per] ?? per).replace(/s$/, '')}` : ''];
  return words
    .filter(Boolean)
    .join('_')
    .replace(/\W/g, '_');
}

function hasWord(name: string, unit: string): boolean {
  return name.split(/[._]/).includes(unit);
}
