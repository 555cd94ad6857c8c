/**
 * What the domain tells whoever watches. Telemetry implements it; the domain knows no telemetry. All methods return
 * at once and never throw.
 */

import type { HoldEnd, RouteDecision, RunEnd } from '../core/outcomes.ts';
import type { TraceCarrier } from './signal.ts';
import type { ThreadRef } from './thread.ts';

export interface RunFacts {
  readonly agentId: string;
  readonly runId: string;
  readonly thread: ThreadRef;
  readonly fencingToken?: number;
  readonly attempt: number;
  readonly signalCount: number;
  /** The trace of the signal that woke the run. */
  readonly trace?: TraceCarrier;
  /** Those of its other signals. */
  readonly otherTraces?: readonly TraceCarrier[];
  /** How long the signal that woke the run had waited, where that is known. */
  readonly waitedMs?: number;
}

export interface RunScope {
  /** Calls `work` with the run's span as the current one. */
  within<T>(work: () => T): T;
  end(reason: RunEnd, error?: unknown): void;
}

export interface LeaseObserver {
  held(key: string): void;
  /** Share of the TTL that was left when a renewal was confirmed, 0 to 1. */
  renewed(key: string, headroom: number): void;
  /** Renewals began to get no answer, or get one again. Not once per lease. */
  renewalsFailing?(failing: boolean): void;
  ended(key: string, end: HoldEnd, heldMs: number): void;
}

export interface RunObserver {
  routed(decision: RouteDecision): void;
  runStarted(facts: RunFacts): RunScope;
  /** A thread came back after its owner had gone. */
  takenOver(thread: ThreadRef): void;
  /** The carrier of the current trace, to travel with a signal. */
  carrier(): TraceCarrier | undefined;
}

export type Observer = LeaseObserver & RunObserver;

export const silentObserver: Observer = {
  held() {},
  renewed() {},
  ended() {},
  routed() {},
  runStarted: () => ({ within: work => work(), end() {} }),
  takenOver() {},
  carrier: () => undefined,
};
