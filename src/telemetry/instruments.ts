/** The instruments of the metrics table, made once per meter. */

import type {
  Counter,
  Histogram,
  Meter,
  MetricOptions,
  Observable,
  ObservableCounter,
  ObservableGauge,
  ObservableUpDownCounter,
} from '@opentelemetry/api';

import type { SourceTrouble } from '../contracts/lifecycle.ts';
import type { RouteDecision, SignalEnd } from '../core/outcomes.ts';
import { keys, metricTable } from './names.ts';

type Table = typeof metricTable;
type NamesOf<Kind> = { [Name in keyof Table]: Table[Name]['kind'] extends Kind ? Name : never }[keyof Table];

export type Instruments = Readonly<
  Record<NamesOf<'counter'>, Counter> &
    Record<NamesOf<'histogram'>, Histogram> &
    Record<NamesOf<'gauge'>, ObservableGauge> &
    Record<NamesOf<'observed counter'>, ObservableCounter> &
    Record<NamesOf<'observed updowncounter'>, ObservableUpDownCounter>
>;

const routeDecisions: Readonly<Record<RouteDecision, true>> = {
  wake: true,
  deliver: true,
  persist: true,
  discard: true,
  blocked: true,
  duplicate: true,
  refused: true,
  error: true,
};

const signalEnds: Readonly<Record<SignalEnd, true>> = { settled: true, discarded: true, dead_lettered: true };

const sourceTroubles: Readonly<Record<SourceTrouble, true>> = {
  missed: true,
  unparsable: true,
  expired: true,
  silent: true,
  failed: true,
};

export const reloadOutcomes = ['applied', 'rejected', 'unchanged'] as const;
export const drainOutcomes = ['transferred', 'released', 'abandoned'] as const;

/**
 * Counters start at 0 with each of their known attributes: a series that only appears with its first event hides that
 * event from `increase()`.
 */
export function createInstruments(meter: Meter): Instruments {
  const entries = Object.entries(metricTable).map(([name, metric]) => [name, createInstrument(meter, metric)]);
  const instruments = Object.fromEntries(entries) as Instruments;
  instruments.leaseTakeovers.add(0);
  instruments.leaseFenceRejections.add(0);
  instruments.streamRedeliveries.add(0);
  instruments.streamDeadLetters.add(0);
  for (const decision of Object.keys(routeDecisions)) instruments.routeDecisions.add(0, { [keys.decision]: decision });
  for (const outcome of Object.keys(signalEnds)) instruments.inboxEnded.add(0, { [keys.outcome]: outcome });
  for (const outcome of reloadOutcomes) instruments.configReloads.add(0, { [keys.outcome]: outcome });
  for (const reason of Object.keys(sourceTroubles)) instruments.configSourceTroubles.add(0, { [keys.reason]: reason });
  for (const outcome of drainOutcomes) instruments.drainLeases.add(0, { [keys.outcome]: outcome });
  return instruments;
}

function createInstrument(meter: Meter, metric: Table[keyof Table]): Counter | Histogram | Observable {
  const options: MetricOptions = { description: metric.description, unit: metric.unit };
  if (metric.kind === 'counter') return meter.createCounter(metric.name, options);
  if (metric.kind === 'gauge') return meter.createObservableGauge(metric.name, options);
  if (metric.kind === 'observed counter') return meter.createObservableCounter(metric.name, options);
  if (metric.kind === 'observed updowncounter') return meter.createObservableUpDownCounter(metric.name, options);
  return meter.createHistogram(metric.name, { ...options, advice: { explicitBucketBoundaries: [...metric.buckets] } });
}
