/**
 * Unknown is absent. The SDK cannot forget: once an observed gauge has had a value, a round in which nothing is observed
 * repeats it. So what is no longer known is observed as NaN, and NaN is dropped here, on the way out of each path.
 */

import { DataPointType } from '@opentelemetry/sdk-metrics';
import type { MetricData, PushMetricExporter, ResourceMetrics } from '@opentelemetry/sdk-metrics';

export function knownOnly(metrics: ResourceMetrics): ResourceMetrics {
  return {
    resource: metrics.resource,
    scopeMetrics: metrics.scopeMetrics.map(({ scope, metrics: all }) => ({ scope, metrics: all.flatMap(known) })),
  };
}

function known(metric: MetricData): MetricData[] {
  if (metric.dataPointType !== DataPointType.GAUGE) return [metric];
  const dataPoints = metric.dataPoints.filter(point => !Number.isNaN(point.value));
  return dataPoints.length > 0 ? [{ ...metric, dataPoints }] : [];
}

/** An exporter that gets only what is known. */
export function exportingKnownOnly(exporter: PushMetricExporter): PushMetricExporter {
  return {
    export: (metrics, done) => exporter.export(knownOnly(metrics), done),
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
    ...(exporter.selectAggregation && { selectAggregation: exporter.selectAggregation.bind(exporter) }),
    ...(exporter.selectAggregationTemporality && {
      selectAggregationTemporality: exporter.selectAggregationTemporality.bind(exporter),
    }),
  };
}
