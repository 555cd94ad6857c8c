/**
 * Every name that this project shows to a tracing or metrics backend. Dashboards, alerts and runbooks hang on them: a
 * change here is a change for whoever is on call.
 *
 * Attributes on metrics are closed sets (outcomes, reasons, error codes). No thread, resource, run or signal id is ever
 * on a metric; spans have them.
 */

/** The name of our tracer and meter. */
export const scopeName = 'signals-runtime';

export const spanNames = {
  leaseAcquire: 'lease.acquire',
  leaseRenew: 'lease.renew',
  leaseTransfer: 'lease.transfer',
  leaseRelease: 'lease.release',
  signalRoute: 'signal.route',
  threadRun: 'thread.run',
  runtimeDrain: 'runtime.drain',
  configReload: 'config.reload',
} as const;

/** Attributes of both spans and metrics. */
export const keys = {
  operation: 'operation',
  outcome: 'outcome',
  endReason: 'end_reason',
  decision: 'decision',
  errorType: 'error.type',
  reason: 'reason',
  cpuMode: 'cpu.mode',
} as const;

/** Attributes of spans only. Times are milliseconds. */
export const spanKeys = {
  agentId: 'signals.agent.id',
  resourceId: 'signals.resource.id',
  threadId: 'signals.thread.id',
  runId: 'signals.run.id',
  runAttempt: 'signals.run.attempt',
  runSignals: 'signals.run.signal_count',
  runWaitedMs: 'signals.run.waited_ms',
  /** On a link: what it leads to. */
  link: 'signals.link',
  source: 'signals.config.source',
  abandoned: 'signals.drain.abandoned',
  runConsumed: 'signals.run.consumed_count',
  signalId: 'signals.signal.id',
  signalType: 'signals.signal.type',
  duplicate: 'signals.signal.duplicate',
  waiting: 'signals.inbox.waiting',
  leaseKey: 'signals.lease.key',
  owner: 'signals.lease.owner',
  /** Who holds it instead, where that is another. */
  currentOwner: 'signals.lease.current_owner',
  previousOwner: 'signals.lease.previous_owner',
  fencingToken: 'signals.lease.fencing_token',
  ttlMs: 'signals.lease.ttl_ms',
  headroom: 'signals.lease.headroom',
  heldMs: 'signals.lease.held_ms',
  unownedMs: 'signals.lease.unowned_ms',
  batchSize: 'signals.lease.batch_size',
} as const;

/** `observed...` are read when they are asked for; so is a gauge. */
export type MetricKind = 'counter' | 'histogram' | 'gauge' | 'observed counter' | 'observed updowncounter';

interface Metric {
  readonly name: string;
  readonly kind: MetricKind;
  /** UCUM; `{...}` is an annotation, not a unit. */
  readonly unit: string;
  readonly description: string;
  /** Histograms only. */
  readonly buckets?: readonly number[];
}

/** What the semantic conventions advise for operations measured in seconds. */
export const operationSeconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10] as const;

/** What they advise for work of a model, which is what a run is and for as long as a lease is held. */
export const workSeconds = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
] as const;

const shares = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1] as const;

export const metricTable = {
  leaseOperationDuration: {
    name: 'signals.lease.operation.duration',
    kind: 'histogram',
    unit: 's',
    description: 'Duration of lease operations, by operation and outcome.',
    buckets: operationSeconds,
  },
  leaseActive: {
    name: 'signals.lease.active',
    kind: 'observed updowncounter',
    unit: '{lease}',
    description: 'Leases that this instance holds.',
  },
  leaseHoldDuration: {
    name: 'signals.lease.hold.duration',
    kind: 'histogram',
    unit: 's',
    description: 'How long leases were held, by why that ended.',
    buckets: workSeconds,
  },
  leaseRenewalHeadroom: {
    name: 'signals.lease.renewal.headroom',
    kind: 'histogram',
    unit: '1',
    description: 'Share of the TTL that was left when a renewal was confirmed.',
    buckets: shares,
  },
  leaseHandoffGap: {
    name: 'signals.lease.handoff.gap',
    kind: 'histogram',
    unit: 's',
    description: 'How long signals had waited without an owner when a thread got one, by the clock of the store; 0 when it was handed over.',
    buckets: operationSeconds,
  },
  leaseTakeovers: {
    name: 'signals.lease.takeovers',
    kind: 'counter',
    unit: '{takeover}',
    description: 'Threads that this instance took over from an owner that had gone.',
  },
  leaseFenceRejections: {
    name: 'signals.lease.fence.rejections',
    kind: 'counter',
    unit: '{rejection}',
    description: 'Writes that were refused because their lease was no longer the current one.',
  },
  leaseTtl: {
    name: 'signals.lease.ttl',
    kind: 'gauge',
    unit: 's',
    description: 'Effective lease TTL.',
  },
  leaseRenewInterval: {
    name: 'signals.lease.renew_interval',
    kind: 'gauge',
    unit: 's',
    description: 'Effective time between two renewals.',
  },
  routeDecisions: {
    name: 'signals.route.decisions',
    kind: 'counter',
    unit: '{signal}',
    description: 'Signals routed, by what became of them.',
  },
  runActive: {
    name: 'signals.run.active',
    kind: 'observed updowncounter',
    unit: '{run}',
    description: 'Runs that are on in this instance.',
  },
  runDuration: {
    name: 'signals.run.duration',
    kind: 'histogram',
    unit: 's',
    description: 'Duration of runs, by why they ended.',
    buckets: workSeconds,
  },
  inboxWaiting: {
    name: 'signals.inbox.waiting',
    kind: 'gauge',
    unit: '{thread}',
    description: 'Threads whose signals wait and that nobody runs, as this instance last read it. Absent while unknown.',
  },
  inboxOldestAge: {
    name: 'signals.inbox.oldest.age',
    kind: 'gauge',
    unit: 's',
    description: 'How long the first of them has been without an owner, as this instance last read it. Absent when there is none.',
  },
  inboxEnded: {
    name: 'signals.inbox.ended',
    kind: 'counter',
    unit: '{signal}',
    description: 'Accepted signals that are over: settled by a run, discarded on request, or dead-lettered.',
  },
  // The streams backend counts its events under these two names as well: unit and meter have to be the same.
  streamRedeliveries: {
    name: 'signals.stream.redeliveries',
    kind: 'counter',
    unit: '{event}',
    description: 'Signals and events that were delivered again.',
  },
  streamDeadLetters: {
    name: 'signals.stream.dead_letters',
    kind: 'counter',
    unit: '{event}',
    description: 'Signals and events that were given up after too many deliveries.',
  },
  configReloads: {
    name: 'signals.config.reloads',
    kind: 'counter',
    unit: '{reload}',
    description: 'Settings read again, by outcome.',
  },
  configSourceTroubles: {
    name: 'signals.config.source.troubles',
    kind: 'counter',
    unit: '{trouble}',
    description: 'What went wrong while a source of settings was followed, by reason; missed is a change that a watch which stood did not tell of.',
  },
  drainDuration: {
    name: 'signals.drain.duration',
    kind: 'histogram',
    unit: 's',
    description: 'Duration of drains.',
    buckets: workSeconds,
  },
  drainLeases: {
    name: 'signals.drain.leases',
    kind: 'counter',
    unit: '{lease}',
    description: 'Leases given up by drains, by outcome.',
  },
  eventLoopDelayP99: {
    name: 'nodejs.eventloop.delay.p99',
    kind: 'gauge',
    unit: 's',
    description: 'Event loop delay, 99th percentile.',
  },
  processCpuTime: {
    name: 'process.cpu.time',
    kind: 'observed counter',
    unit: 's',
    description: 'CPU time of this process, all of its threads, by mode.',
  },
  processMemoryUsage: {
    name: 'process.memory.usage',
    kind: 'observed updowncounter',
    unit: 'By',
    description: 'Physical memory in use by this process.',
  },
  processUptime: {
    name: 'process.uptime',
    kind: 'gauge',
    unit: 's',
    description: 'How long this process has been running.',
  },
} as const satisfies Record<string, Metric>;
