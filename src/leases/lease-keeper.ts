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
import type { Clock, Timer } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { Hold } from './hold.ts';
import type { HeldLease } from './hold.ts';
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
    // Spread from the start: leases that were taken together are not renewed together.
    hold.renewAtMs = grant.askedAt.monotonicMs + renewIntervalMs * (0.5 + 0.5 * this.#random());
    this.#holds.add(hold);
    this.#observer.held(grant.key);
    this.#wakeAt(this.#nextFor(hold));
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
    const { key, owner, fencingToken } = hold.grant;
    if (end === 'lost' || end === 'expired') this.#logger.warn('lease is gone', { key, owner, fencingToken, end });
    this.#observer.ended(key, end, heldMs);
    if (this.#holds.size === 0) this.#sleep(Infinity);
  }

  /** Deadlines come first: after a stall nothing is done for a lease that may be another's by now (L2). */
  #tick(): void {
    this.#wakeAtMs = Infinity;
    for (const hold of this.#holds) hold.expireIfDue();

    const settings = this.#settings();
    const coalescedMs = Math.min(longestCoalescedMs, settings.renewIntervalMs * coalescedShare);
    const dueMs = this.#clock.monotonicMs() + coalescedMs;
    const due = [...this.#holds].filter(hold => hold.renewAtMs <= dueMs);
    if (due.length > 0) this.#renew(due, settings);

    let next = Infinity;
    for (const hold of this.#holds) next = Math.min(next, this.#nextFor(hold));
    this.#wakeAt(next);
  }

  #renew(holds: readonly Hold[], settings: LeaseSettings): void {
    // A shorter TTL than before must not cut short what was promised, should its answer be lost.
    const ttlMs = holds.reduce((ttl, hold) => Math.max(ttl, Math.ceil(hold.promisedMs())), settings.ttlMs);
    const askedAt = instant(this.#clock);
    for (const hold of holds) {
      hold.attempts++;
      // If nothing is heard until then it is tried again: both requests may succeed, that is no harm.
      hold.renewAtMs = askedAt.monotonicMs + retryDelayMs(hold.attempts, settings, this.#random);
    }
    const settle = (answers: readonly (boolean | Error)[]) => {
      const failed = answers.filter(answer => answer instanceof Error);
      this.#report(failed[0], failed.length);
      for (const [at, hold] of holds.entries()) {
        const answer = answers[at];
        if (answer === true) this.#renewed(hold, { ...hold.grant, ttlMs, askedAt }, settings);
        else if (answer === false) hold.lose();
      }
    };
    void this.#ask(holds, ttlMs).then(settle, (error: unknown) => this.#report(error, holds.length));
  }

  async #ask(holds: readonly Hold[], ttlMs: number): Promise<(boolean | Error)[]> {
    const provider = this.#provider;
    if (isBatchLeaseProvider(provider)) return await provider.renewLeases(holds.map(hold => hold.grant), ttlMs);
    const renew = async ({ grant }: Hold) => await provider.renewLease(grant.key, grant.owner, ttlMs);
    const answers = await Promise.allSettled(holds.map(renew));
    return answers.map(answer => (answer.status === 'fulfilled' ? answer.value : toError(answer.reason)));
  }

  #renewed(hold: Hold, promise: Pick<Grant, 'ttlMs' | 'askedAt'>, settings: LeaseSettings): void {
    const headroom = hold.remainingMs() / hold.ttlMs;
    if (!hold.extend(promise, settings.driftMs)) return;
    hold.renewAt(promise.askedAt.monotonicMs + jitterMs(settings.renewIntervalMs, 0.1, this.#random));
    this.#observer.renewed(hold.grant.key, Math.min(1, Math.max(0, headroom)));
    this.#wakeAt(this.#nextFor(hold));
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

  #nextFor(hold: Hold): number {
    return Math.min(hold.renewAtMs, this.#clock.monotonicMs() + hold.remainingMs());
  }

  #wakeAt(atMs: number): void {
    const now = this.#clock.monotonicMs();
    const wakeAtMs = Math.min(atMs, now + longestSleepMs);
    if (this.#holds.size > 0 && wakeAtMs < this.#wakeAtMs) this.#sleep(wakeAtMs);
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

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(errorMessage(reason));
}
