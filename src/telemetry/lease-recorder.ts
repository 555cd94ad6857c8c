/** One lease operation as a span and a point of `signals.lease.operation.duration`. */

import { ROOT_CONTEXT } from '@opentelemetry/api';
import type { Attributes, Context, Link, Span } from '@opentelemetry/api';

import type { AcquireOutcome, LeaseOperation, ReleaseOutcome, RenewOutcome, TransferOutcome } from '../core/outcomes.ts';
import { errorType, failSpan, isTimeout } from './instrumentation.ts';
import type { Instrumentation } from './instrumentation.ts';
import { keys, spanKeys, spanNames } from './names.ts';

export interface Start {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export interface Moment {
  readonly start: Start;
  /** The context that the operation belongs to. */
  readonly within: Context;
}

type Outcomes = {
  readonly acquire: AcquireOutcome;
  readonly renew: RenewOutcome;
  readonly transfer: TransferOutcome;
  readonly release: ReleaseOutcome;
};

export type OperationRecord = {
  [Operation in LeaseOperation]: {
    readonly operation: Operation;
    readonly outcome: Outcomes[Operation];
    readonly at: Moment;
    /** Asked for only if the span is kept. */
    readonly attributes: () => Attributes;
    readonly links?: readonly Link[];
    readonly error?: unknown;
  };
}[LeaseOperation];

const spanNameOf: Readonly<Record<LeaseOperation, string>> = {
  acquire: spanNames.leaseAcquire,
  renew: spanNames.leaseRenew,
  transfer: spanNames.leaseTransfer,
  release: spanNames.leaseRelease,
};

/** Why the owner no longer holds it, on the span that ended it. */
const endReasonOf: Readonly<Record<string, string>> = {
  transferred: 'transferred',
  released: 'released',
  lost: 'lost',
  not_owner: 'lost',
  expired: 'expired',
};

export class LeaseRecorder {
  readonly #on: Instrumentation;

  constructor(instrumentation: Instrumentation) {
    this.#on = instrumentation;
  }

  now(): Start {
    return { wallMs: Date.now(), monotonicMs: performance.now() };
  }

  /** Records an operation that has just ended, duration and span. Answers its ended span. */
  record(record: OperationRecord): Span {
    const durationMs = this.measure(record.operation, record.outcome, record.at.start, record.error);
    return this.show(record, durationMs);
  }

  /** The metric alone. Answers the duration, ms. */
  measure(operation: LeaseOperation, outcome: string, start: Start, error?: unknown): number {
    const durationMs = performance.now() - start.monotonicMs;
    this.#on.instruments.leaseOperationDuration.record(durationMs / 1000, {
      [keys.operation]: operation,
      [keys.outcome]: outcome,
      ...(error === undefined ? {} : { [keys.errorType]: errorType(error) }),
    });
    return durationMs;
  }

  /**
   * The span alone. Renewals are roots: a timer made them, and the trace of whoever started the lease may be hours old.
   * The outcome is there from the start, so that a sampler can keep failures.
   */
  show(record: OperationRecord, durationMs: number): Span {
    const { operation, outcome, at, attributes, links, error } = record;
    const endReason = operation === 'acquire' ? undefined : endReasonOf[outcome];
    const { span } = this.#on.startSpan(
      spanNameOf[operation],
      {
        startTime: at.start.wallMs,
        links: [...(links ?? [])],
        attributes: { [keys.outcome]: outcome },
      },
      operation === 'renew' ? ROOT_CONTEXT : at.within,
    );
    if (!span.isRecording()) return span;
    span.setAttributes(attributes());
    if (endReason !== undefined) span.setAttribute(keys.endReason, endReason);
    if (error !== undefined) failSpan(this.#on, span, error);
    span.end(at.start.wallMs + durationMs);
    return span;
  }
}

export function failureOutcome(error: unknown): 'error' | 'timeout' {
  return isTimeout(error) ? 'timeout' : 'error';
}

export function leaseAttributes(instrumentation: Instrumentation, key: string, owner: string, ttlMs?: number): Attributes {
  const token = instrumentation.leases.of(key, owner)?.fencingToken;
  return {
    [spanKeys.leaseKey]: instrumentation.ids.id(key),
    [spanKeys.owner]: owner,
    ...(ttlMs === undefined ? {} : { [spanKeys.ttlMs]: ttlMs }),
    ...(token === undefined ? {} : { [spanKeys.fencingToken]: token }),
  };
}
