/** One held lease: its deadline, and how it ends. */

import type { Grant } from '../contracts/thread-mailbox.ts';
import { elapsedMs, instant } from '../core/clock.ts';
import type { Clock, Instant } from '../core/clock.ts';
import { SignalsError } from '../core/errors.ts';
import type { HoldEnd } from '../core/outcomes.ts';

export interface HeldLease {
  readonly grant: Grant;
  /** Aborts with `SIG_LEASE_LOST` (the store says no) or `SIG_LEASE_EXPIRED` (the deadline came) as its reason. */
  readonly signal: AbortSignal;
  /** Milliseconds until this side must have stopped; negative when past. */
  remainingMs(): number;
  /** Renewals that were asked for and not confirmed, since the last one that was: whether it was the store that said nothing. */
  readonly unanswered: number;
  /** Throws `SIG_LEASE_LOST` or `SIG_LEASE_EXPIRED`. Synchronous; call it before every effect (L1). */
  assertHeld(): void;
  /**
   * Renew no more: the step that gives the lease up is on its way, and its answer decides what became of it. Until then the
   * lease is ours to its deadline, and a late "no" to an earlier renewal says nothing.
   */
  stopRenewing(): void;
  /** The lease was given up or moved on. Idempotent; tells the observer why. */
  drop(end: HoldEnd): void;
}

/** What the store promised: the same for all leases of a batch. */
export interface LeasePromise {
  /** On each clock; whichever comes first counts. */
  readonly deadline: Instant;
  readonly ttlMs: number;
  readonly driftMs: number;
}

/** The deadline counts from before the request was sent, less the allowance (L1). */
export function promiseOf({ askedAt, ttlMs }: Pick<Grant, 'askedAt' | 'ttlMs'>, driftMs: number): LeasePromise {
  const usableMs = ttlMs - driftMs;
  const deadline = { monotonicMs: askedAt.monotonicMs + usableMs, wallMs: askedAt.wallMs + usableMs };
  return { deadline, ttlMs, driftMs };
}

export class Hold implements HeldLease {
  readonly grant: Grant;
  /** When the keeper asks (again), on the monotonic clock; set by its schedule. */
  renewAtMs = Infinity;
  unanswered = 0;
  readonly #clock: Clock;
  readonly #onEnd: (hold: Hold, end: HoldEnd, heldMs: number) => void;
  readonly #abort = new AbortController();
  #promise: LeasePromise;
  #givingUp = false;
  /** Why, made when somebody asks: nobody does of nearly all leases that are given up. */
  #ended: (() => SignalsError) | undefined;

  constructor(grant: Grant, driftMs: number, clock: Clock, onEnd: (hold: Hold, end: HoldEnd, heldMs: number) => void) {
    this.grant = grant;
    this.#clock = clock;
    this.#onEnd = onEnd;
    this.#promise = promiseOf(grant, driftMs);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get deadline(): Instant {
    return this.#promise.deadline;
  }

  get ttlMs(): number {
    return this.#promise.ttlMs;
  }

  /** `now` spares whoever looks at thousands of leases as many looks at the clocks. */
  remainingMs(now = instant(this.#clock)): number {
    return remainingUntil(this.#promise.deadline, now);
  }

  /** Milliseconds for which the store keeps the lease at least, by this side's clocks. */
  promisedMs(now: Instant): number {
    return this.remainingMs(now) + this.#promise.driftMs;
  }

  assertHeld(): void {
    this.expireIfDue();
    if (this.#ended) throw this.#ended();
  }

  stopRenewing(): void {
    this.#givingUp = true;
  }

  get isRenewed(): boolean {
    return !this.#givingUp;
  }

  drop(end: HoldEnd): void {
    this.#end(end, () => new SignalsError('SIG_LEASE_LOST', `the lease was given up (${end})`, this.#facts()));
  }

  /** The store said no (L3). */
  lose(): void {
    if (this.#givingUp) return;
    this.#stop('lost', new SignalsError('SIG_LEASE_LOST', 'the store says that the lease is not ours', this.#facts()));
  }

  /** Ends it from this side, and its user with it. */
  end(end: HoldEnd, why: string): void {
    this.#stop(end, new SignalsError('SIG_LEASE_EXPIRED', why, this.#facts()));
  }

  expireIfDue(now = instant(this.#clock)): boolean {
    if (this.remainingMs(now) > 0) return false;
    this.end('expired', 'the lease could not be renewed before its deadline');
    return true;
  }

  /**
   * Answers whether the lease goes on. A confirmation that comes past the deadline revives nothing: the user was told
   * to stop, or is about to be. A promise never gets shorter.
   */
  extend(promise: LeasePromise, now: Instant): boolean {
    if (this.#ended || this.expireIfDue(now)) return false;
    if (remainingUntil(promise.deadline, now) > this.remainingMs(now)) this.#promise = promise;
    this.unanswered = 0;
    return true;
  }

  #stop(end: HoldEnd, reason: SignalsError): void {
    if (this.#end(end, () => reason)) this.#abort.abort(reason);
  }

  #end(end: HoldEnd, reason: () => SignalsError): boolean {
    if (this.#ended) return false;
    this.#ended = reason;
    this.#onEnd(this, end, elapsedMs(this.#clock, this.grant.askedAt));
    return true;
  }

  #facts() {
    const { key, owner, fencingToken } = this.grant;
    return { details: { key, owner, fencingToken } };
  }
}

/** By the clock that says more has passed (L1). */
export function remainingUntil(deadline: Instant, now: Instant): number {
  return Math.min(deadline.monotonicMs - now.monotonicMs, deadline.wallMs - now.wallMs);
}
