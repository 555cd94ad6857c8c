/** What is read rather than counted: the process and its event loop, the settings in effect, what waits. */

import { monitorEventLoopDelay } from 'node:perf_hooks';

import type { ObservableCallback } from '@opentelemetry/api';
import { context, ROOT_CONTEXT } from '@opentelemetry/api';

import { jitterMs } from '../core/backoff.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { systemClock } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import type { Instrumentation } from './instrumentation.ts';
import { keys } from './names.ts';

export interface Backlog {
  readonly waiting: number;
  /** Of the oldest waiting signal. */
  readonly oldestAgeMs?: number;
}

export interface RuntimeMetricsOptions {
  readonly instrumentation: Instrumentation;
  /** The settings in effect, asked anew each time. */
  readonly settings: () => { readonly ttlMs: number; readonly renewIntervalMs: number };
  /** What waits in all inboxes; `undefined` or a rejection when that is not known. */
  readonly backlog?: () => Promise<Backlog | undefined>;
  /** Default 5000. */
  readonly backlogIntervalMs?: number;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

/** How finely the event loop is watched; its timer's own period is no delay and is taken off. */
const resolutionMs = 10;
/** The percentile is that of the last whole window, so that any number of readers sees the same. */
const windowMs = 10_000;
/** An observed value that is not shown: see `setup/known-values.ts`. */
const unknown = Number.NaN;

export function startRuntimeMetrics(options: RuntimeMetricsOptions): { stop(): void } {
  // Not in the context of whoever starts us: the timers go on for the life of the process.
  return context.with(ROOT_CONTEXT, () => {
    const stops = [observeSettings(options), observeProcess(options), observeEventLoop(options), observeBacklog(options)];
    return { stop: () => stops.forEach(stop => stop()) };
  });
}

function observeSettings({ instrumentation, settings }: RuntimeMetricsOptions): () => void {
  const { leaseTtl, leaseRenewInterval } = instrumentation.instruments;
  const ttl: ObservableCallback = result => result.observe(settings().ttlMs / 1000);
  const interval: ObservableCallback = result => result.observe(settings().renewIntervalMs / 1000);
  leaseTtl.addCallback(ttl);
  leaseRenewInterval.addCallback(interval);
  return () => {
    leaseTtl.removeCallback(ttl);
    leaseRenewInterval.removeCallback(interval);
  };
}

function observeProcess({ instrumentation }: RuntimeMetricsOptions): () => void {
  const { processCpuTime, processMemoryUsage, processUptime } = instrumentation.instruments;
  const cpu: ObservableCallback = result => {
    const { user, system } = process.cpuUsage();
    result.observe(user / 1e6, { [keys.cpuMode]: 'user' });
    result.observe(system / 1e6, { [keys.cpuMode]: 'system' });
  };
  const memory: ObservableCallback = result => result.observe(process.memoryUsage.rss());
  const uptime: ObservableCallback = result => result.observe(process.uptime());
  processCpuTime.addCallback(cpu);
  processMemoryUsage.addCallback(memory);
  processUptime.addCallback(uptime);
  return () => {
    processCpuTime.removeCallback(cpu);
    processMemoryUsage.removeCallback(memory);
    processUptime.removeCallback(uptime);
  };
}

function observeEventLoop({ instrumentation, clock = systemClock }: RuntimeMetricsOptions): () => void {
  const histogram = monitorEventLoopDelay({ resolution: resolutionMs });
  histogram.enable();
  const p99 = () => (histogram.count === 0 ? undefined : Math.max(0, histogram.percentile(99) / 1e9 - resolutionMs / 1000));
  let lastWindow: number | undefined;
  const stopTimer = every(clock, () => windowMs, () => {
    lastWindow = p99();
    histogram.reset();
  });
  const gauge = instrumentation.instruments.eventLoopDelayP99;
  const callback: ObservableCallback = result => {
    result.observe(lastWindow ?? p99() ?? unknown);
  };
  gauge.addCallback(callback);
  return () => {
    gauge.removeCallback(callback);
    stopTimer();
    histogram.disable();
  };
}

/** Read in the background: a scrape must not wait for the store, nor add to its load. */
function observeBacklog(options: RuntimeMetricsOptions): () => void {
  const { backlog, clock = systemClock, logger = silentLogger, backlogIntervalMs = 5000 } = options;
  if (!backlog) return () => {};
  const { inboxWaiting, inboxOldestAge } = options.instrumentation.instruments;
  let known: Backlog | undefined;
  let knownAtMs = 0;
  let asking = false;
  const ask = async () => {
    if (asking) return;
    asking = true;
    try {
      known = await backlog();
      knownAtMs = clock.monotonicMs();
    } catch (error) {
      known = undefined;
      logger.debug('waiting signals could not be counted', { error: errorMessage(error) });
    } finally {
      asking = false;
    }
  };
  /** A store that hangs leaves the last answer standing; after a few intervals that is no longer knowledge. */
  const fresh = () => (clock.monotonicMs() - knownAtMs <= 3 * backlogIntervalMs ? known : undefined);
  const waiting: ObservableCallback = result => {
    result.observe(fresh()?.waiting ?? unknown);
  };
  const age: ObservableCallback = result => {
    result.observe((fresh()?.oldestAgeMs ?? unknown) / 1000);
  };
  inboxWaiting.addCallback(waiting);
  inboxOldestAge.addCallback(age);
  void ask();
  const stopTimer = every(clock, () => jitterMs(backlogIntervalMs), () => void ask());
  return () => {
    stopTimer();
    inboxWaiting.removeCallback(waiting);
    inboxOldestAge.removeCallback(age);
  };
}

function every(clock: Clock, delayMs: () => number, action: () => void): () => void {
  let timer: Timer;
  const arm = () => {
    timer = clock.after(delayMs(), () => {
      arm();
      action();
    });
  };
  arm();
  return () => timer.cancel();
}
