/**
 * Holds leases: renews them in time, and makes their users stop before anybody else can have them (L1 to L3 of the
 * README beside this file).
 */

import { AsyncLocalStorage } from 'node:async_hooks';

import { isBatchLeaseProvider } from '../contracts/lease-provider.ts';
import type { LeaseProvider } from '../contracts/lease-provider.ts';
import { silentObserver } from '../contracts/observer.ts';
import type { LeaseObserver } from '../contracts/observer.ts';
import type { Grant } from '../contracts/thread-mailbox.ts';
import { jitterMs } from '../core/backoff.ts';
import { instant, systemClock } from '../core/clock.ts';
import type { Clock, Instant, Timer } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { Hold, promiseOf, remainingUntil } from './hold.ts';
import type { HeldLease, LeasePromise } from './hold.ts';
import { RenewalSchedule } from './renewal-schedule.ts';
import { retryDelayMs } from './retry.ts';
import type { LeaseSettings } from './settings.ts';

export type { HeldLease } from './hold.ts';

export interface LeaseKeeperOptions {
  provider: LeaseProvider;
  /** Read anew for each renewal. */
  settings: () => LeaseSettings;
  clock?: Clock;
  observer?: LeaseObserver;
  logger?: Logger;
  random?: () => number;
}

/** Longest sleep: a suspended machine's timers may stand still with it, its wall clock does not. */
const longestSleepMs = 1000;
/** What falls due within this share of the interval is renewed along: fewer, larger batches, and never late. */
const coalescedShare = 1 / 20;
const longestCoalescedMs = 250;

const never: Instant = { monotonicMs: Infinity, wallMs: Infinity };

/** One timer for all leases. */
export class LeaseKeeper {
  readonly #provider: LeaseProvider;
  readonly #settings: () => LeaseSettings;
  readonly #clock: Clock;
  readonly #observer: LeaseObserver;
  readonly #logger: Logger;
  readonly #random: () => number;
  /** The timer runs outside any caller's context: renewals are not part of the request that took the lease. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  readonly #holds = new Set<Hold>();
  readonly #schedule = new RenewalSchedule();
  /** No deadline is before this one. */
  #earliest = never;
  #timer: Timer | undefined;
  #wakeAtMs = Infinity;
  #failing = false;
  #closed = false;

  constructor(options: LeaseKeeperOptions) {
    this.#provider = options.provider;
    this.#settings = options.settings;
    this.#clock = options.clock ?? systemClock;
    this.#observer = options.observer ?? silentObserver;
    this.#logger = options.logger ?? silentLogger;
    this.#random = options.random ?? Math.random;
  }

  /** Throws `SIG_LEASE_EXPIRED` if the grant's own deadline has already passed, or the keeper was closed. */
  hold(grant: Grant): HeldLease {
    const { renewIntervalMs, driftMs } = this.#settings();
    const hold = new Hold(grant, driftMs, this.#clock, (ended, end, heldMs) => this.#forget(ended, end, heldMs));
    if (this.#closed) hold.end('abandoned', 'this instance holds no more leases');
    hold.assertHeld();
    this.#holds.add(hold);
    // Spread from the start: leases that were taken together are not renewed together.
    this.#schedule.set(hold, grant.askedAt.monotonicMs + renewIntervalMs * (0.5 + 0.5 * this.#random()));
    this.#observer.held(grant.key);
    this.#earliest = earlier(this.#earliest, hold.deadline);
    this.#wakeAt(hold.renewAtMs);
    return hold;
  }

  get heldCount(): number {
    return this.#holds.size;
  }

  /** Ends what is still held: without renewals nobody would be told in time. */
  close(): void {
    this.#closed = true;
    for (const hold of this.#holds) hold.end('abandoned', 'this instance holds no more leases');
    this.#sleep(Infinity);
  }

  #forget(hold: Hold, end: Parameters<LeaseObserver['ended']>[1], heldMs: number): void {
    if (!this.#holds.delete(hold)) return;
    this.#schedule.remove(hold);
    const { key, owner, fencingToken } = hold.grant;
    if (end === 'lost' || end === 'expired') this.#logger.warn('lease is gone', { key, owner, fencingToken, end });
    this.#observer.ended(key, end, heldMs);
    if (this.#holds.size === 0) this.#sleep(Infinity);
  }

  /** Deadlines come first: after a stall nothing is done for a lease that may be another's by now (L2). */
  #tick(): void {
    this.#wakeAtMs = Infinity;
    const now = instant(this.#clock);
    if (remainingUntil(this.#earliest, now) <= 0) this.#expire(now);

    const settings = this.#settings();
    const coalescedMs = Math.min(longestCoalescedMs, settings.renewIntervalMs * coalescedShare);
    const due = this.#schedule.takeDue(now.monotonicMs + coalescedMs).filter(hold => hold.isRenewed);
    if (due.length > 0) this.#renew(due, settings);
    this.#wakeAt(this.#schedule.nextMs());
  }

  /** Ends what is past its deadline, and looks when the next one is. Deadlines only move away, so until then none is. */
  #expire(now: Instant): void {
    for (const hold of this.#holds) hold.expireIfDue(now);
    this.#earliest = never;
    for (const hold of this.#holds) this.#earliest = earlier(this.#earliest, hold.deadline);
  }

  #renew(holds: readonly Hold[], settings: LeaseSettings): void {
    const askedAt = instant(this.#clock);
    // A shorter TTL than before must not cut short what was promised, should its answer be lost.
    const ttlMs = holds.reduce((ttl, hold) => Math.max(ttl, Math.ceil(hold.promisedMs(askedAt))), settings.ttlMs);
    for (const hold of holds) {
      hold.unanswered++;
      // If nothing is heard until then it is tried again: both requests may succeed, that is no harm.
      this.#schedule.set(hold, askedAt.monotonicMs + retryDelayMs(hold.unanswered, settings, this.#random));
    }
    const promise = promiseOf({ askedAt, ttlMs }, settings.driftMs);
    void this.#ask(holds, ttlMs).then(
      answers => this.#settle(holds, answers, promise, askedAt.monotonicMs),
      (error: unknown) => this.#report(error, holds.length),
    );
  }

  #settle(holds: readonly Hold[], answers: readonly (boolean | Error)[], promise: LeasePromise, askedAtMs: number): void {
    const failed = answers.filter(answer => answer instanceof Error);
    this.#report(failed[0], failed.length);
    const now = instant(this.#clock);
    const { renewIntervalMs } = this.#settings();
    for (const [at, hold] of holds.entries()) {
      const answer = answers[at];
      // Only ever later than the next try that is set: the timer can stay as it is.
      if (answer === true) this.#renewed(hold, promise, now, askedAtMs + jitterMs(renewIntervalMs, 0.1, this.#random));
      else if (answer === false) hold.lose();
    }
  }

  async #ask(holds: readonly Hold[], ttlMs: number): Promise<(boolean | Error)[]> {
    const provider = this.#provider;
    if (isBatchLeaseProvider(provider)) return await provider.renewLeases(holds.map(hold => hold.grant), ttlMs);
    const renew = async ({ grant }: Hold) => await provider.renewLease(grant.key, grant.owner, ttlMs);
    const answers = await Promise.allSettled(holds.map(renew));
    return answers.map(answer => (answer.status === 'fulfilled' ? answer.value : toError(answer.reason)));
  }

  #renewed(hold: Hold, promise: LeasePromise, now: Instant, renewAtMs: number): void {
    const headroom = hold.remainingMs(now) / hold.ttlMs;
    if (!hold.extend(promise, now)) return;
    this.#schedule.set(hold, renewAtMs);
    this.#observer.renewed(hold.grant.key, Math.min(1, Math.max(0, headroom)));
  }

  /** "No answer" ends nothing (L3); it is said once, and once more when it is over. */
  #report(error: unknown, count: number): void {
    if (error !== undefined && !this.#failing) {
      this.#logger.warn('leases could not be renewed; trying until they expire', { count, error: errorMessage(error) });
    }
    if (error === undefined && this.#failing) this.#logger.info('leases are being renewed again');
    const failing = error !== undefined;
    if (failing !== this.#failing) this.#observer.renewalsFailing?.(failing);
    this.#failing = failing;
  }

  /** Sets the timer to then, or to the next deadline if that is earlier, unless it is set to something earlier still. */
  #wakeAt(atMs: number): void {
    if (this.#holds.size === 0) return;
    const now = instant(this.#clock);
    const deadlineMs = now.monotonicMs + remainingUntil(this.#earliest, now);
    const wakeAtMs = Math.min(atMs, deadlineMs, now.monotonicMs + longestSleepMs);
    if (wakeAtMs < this.#wakeAtMs) this.#sleep(wakeAtMs);
  }

  #sleep(untilMs: number): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#wakeAtMs = untilMs;
    if (untilMs === Infinity) return;
    const delayMs = Math.max(0, untilMs - this.#clock.monotonicMs());
    this.#timer = this.#inOwnContext(() => this.#clock.after(delayMs, () => this.#tick()));
  }
}

/** The earlier of both on each clock. */
function earlier(a: Instant, b: Instant): Instant {
  return { monotonicMs: Math.min(a.monotonicMs, b.monotonicMs), wallMs: Math.min(a.wallMs, b.wallMs) };
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(errorMessage(reason));
}
