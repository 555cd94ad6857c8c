/** Keepers and acquires with the mistakes that are made in the field, to see that the simulation notices each. */

import type { LeaseProvider } from '../../src/contracts/lease-provider.ts';
import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { elapsedMs, instant } from '../../src/core/clock.ts';
import type { Clock } from '../../src/core/clock.ts';
import type { HoldEnd } from '../../src/core/outcomes.ts';
import { SignalsError } from '../../src/core/errors.ts';
import type { HeldLease, LeaseKeeperOptions } from '../../src/leases/lease-keeper.ts';

export interface Mistakes {
  /** The deadline counts from the reply, not from before the request. */
  countsFromReply?: boolean;
  /** No deadline at all: without an answer the run goes on, as in the original. */
  knowsNoDeadline?: boolean;
  /** "No" only stops the renewals, as in the original; the run goes on. */
  ignoresNo?: boolean;
  /** An unanswered renewal counts as "no". */
  takesSilenceForNo?: boolean;
  /** Looks at the monotonic clock only. */
  trustsMonotonicClock?: boolean;
  /** Nothing is taken off the deadline. */
  hasNoAllowance?: boolean;
  /** The deadline is looked at by a timer only, not before each effect. */
  checksByTimerOnly?: boolean;
}

/** A keeper as one would write it first: a timer a lease. Without a mistake it is sound. */
export class NaiveKeeper {
  readonly #options: LeaseKeeperOptions;
  readonly #mistakes: Mistakes;

  constructor(options: LeaseKeeperOptions, mistakes: Mistakes = {}) {
    this.#options = options;
    this.#mistakes = mistakes;
  }

  hold(grant: Grant): HeldLease {
    const held = new NaiveHold(grant, this.#options, this.#mistakes);
    held.assertHeld();
    return held;
  }
}

class NaiveHold implements HeldLease {
  readonly unanswered = 0;
  readonly grant: Grant;
  readonly #options: LeaseKeeperOptions;
  readonly #clock: Clock;
  readonly #mistakes: Mistakes;
  readonly #abort = new AbortController();
  #askedAt;
  #ttlMs: number;
  #driftMs: number;
  #ended: unknown;

  constructor(grant: Grant, options: LeaseKeeperOptions, mistakes: Mistakes) {
    this.grant = grant;
    this.#options = options;
    this.#mistakes = mistakes;
    this.#clock = options.clock as Clock;
    this.#askedAt = mistakes.countsFromReply ? instant(this.#clock) : grant.askedAt;
    this.#ttlMs = grant.ttlMs;
    this.#driftMs = options.settings().driftMs;
    this.#watch();
    this.#renewLater();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  remainingMs(): number {
    if (this.#mistakes.knowsNoDeadline) return Infinity;
    const passed = this.#mistakes.trustsMonotonicClock
      ? this.#clock.monotonicMs() - this.#askedAt.monotonicMs
      : elapsedMs(this.#clock, this.#askedAt);
    return this.#ttlMs - (this.#mistakes.hasNoAllowance ? 0 : this.#driftMs) - passed;
  }

  assertHeld(): void {
    if (!this.#mistakes.checksByTimerOnly) this.#expireIfDue();
    if (this.#ended) throw this.#ended;
  }

  stopRenewing(): void {}

  drop(_end: HoldEnd): void {
    this.#ended ??= new SignalsError('SIG_LEASE_LOST', 'given up');
  }

  #watch(): void {
    if (this.#mistakes.knowsNoDeadline) return;
    this.#clock.after(Math.min(1000, Math.max(0.5, this.remainingMs())), () => {
      this.#expireIfDue();
      if (!this.#ended) this.#watch();
    });
  }

  #expireIfDue(): void {
    if (!this.#ended && this.remainingMs() <= 0) this.#stop(new SignalsError('SIG_LEASE_EXPIRED', 'deadline'));
  }

  #stop(reason: SignalsError): void {
    this.#ended = reason;
    this.#abort.abort(reason);
  }

  #renewLater(): void {
    this.#clock.after(this.#options.settings().renewIntervalMs, () => {
      this.#expireIfDue();
      if (this.#ended) return;
      this.#renew(this.#options.provider);
      this.#renewLater();
    });
  }

  #renew(provider: LeaseProvider): void {
    const { driftMs, ttlMs } = this.#options.settings();
    const askedAt = instant(this.#clock);
    provider.renewLease(this.grant.key, this.grant.owner, ttlMs).then(
      renewed => {
        this.#expireIfDue();
        if (this.#ended) return;
        if (renewed) this.#extend(this.#mistakes.countsFromReply ? instant(this.#clock) : askedAt, ttlMs, driftMs);
        else if (!this.#mistakes.ignoresNo) this.#stop(new SignalsError('SIG_LEASE_LOST', 'no'));
      },
      () => {
        if (this.#mistakes.takesSilenceForNo && !this.#ended) this.#stop(new SignalsError('SIG_LEASE_LOST', 'silence'));
      },
    );
  }

  #extend(askedAt: ReturnType<typeof instant>, ttlMs: number, driftMs: number): void {
    const gainedMs = ttlMs - driftMs - elapsedMs(this.#clock, askedAt) - this.remainingMs();
    if (gainedMs <= 0) return;
    this.#askedAt = askedAt;
    this.#ttlMs = ttlMs;
    this.#driftMs = driftMs;
  }
}

/** The original's: a store that cannot be asked lets everyone run. */
export async function failOpenAcquire(
  provider: LeaseProvider, key: string, owner: string, ttlMs: number, clock: Clock,
): Promise<Grant | undefined> {
  const askedAt = instant(clock);
  const answer = await provider.acquireLease(key, owner, ttlMs).catch(() => ({ acquired: true, fencingToken: 0 }));
  return answer.acquired ? { key, owner, ttlMs, askedAt, fencingToken: answer.fencingToken ?? 0 } : undefined;
}

/** The time is taken when the answer is there. */
export async function lateClockAcquire(
  provider: LeaseProvider, key: string, owner: string, ttlMs: number, clock: Clock,
): Promise<Grant | undefined> {
  const { acquired, fencingToken = 0 } = await provider.acquireLease(key, owner, ttlMs);
  return acquired ? { key, owner, ttlMs, askedAt: instant(clock), fencingToken } : undefined;
}
