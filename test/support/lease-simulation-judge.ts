/** Watches a simulation and says when one of L1 to L7 does not hold. */

import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { isSignalsError } from '../../src/core/errors.ts';
import type { HeldLease } from '../../src/leases/lease-keeper.ts';
import type { Machine, Schedule } from './lease-simulation-time.ts';

export interface Run {
  readonly held: HeldLease;
  readonly machine: Machine;
  readonly token: number;
  stopped: boolean;
}

export class Violation extends Error {
  readonly invariant: string;

  constructor(invariant: string, seed: number, atMs: number, what: string) {
    super(`${invariant} does not hold (seed ${seed}, at ${atMs.toFixed(3)} ms): ${what}`);
    this.invariant = invariant;
  }
}

/** A suspended machine's timers are late by what its monotonic clock missed; the keeper wakes at least this often. */
const graceAfterStopMs = 1100;

export class LeaseJudge {
  readonly #schedule: Schedule;
  readonly #seed: number;
  readonly #runs = new Map<string, Run>();
  readonly #granted = new Set<string>();
  readonly #denied = new Set<string>();
  readonly #largestGiven = new Map<string, number>();
  readonly #largestActed = new Map<string, number>();
  readonly #revoked = new Set<string>();
  #violation: Violation | undefined;
  operations = 0;
  effects = 0;
  grants = 0;
  lost = 0;
  expired = 0;
  refused = 0;
  accepted = 0;
  revocations = 0;

  constructor(schedule: Schedule, seed: number) {
    this.#schedule = schedule;
    this.#seed = seed;
  }

  /** L5: what the store gave out, as it gives it. */
  given(key: string, owner: string, token: number): void {
    this.grants++;
    const largest = this.#largestGiven.get(key) ?? 0;
    if (!(token > largest)) this.#fail('L5', `${key} was given to ${owner} with token ${token} after ${largest}`);
    this.#largestGiven.set(key, token);
    this.#granted.add(owner);
  }

  /** L4: an instance believes that it was given a lease. */
  started({ key, owner }: Grant): void {
    if (!this.#granted.has(owner)) this.#fail('L4', `${owner} starts on ${key}, which it was never given`);
  }

  runs(held: HeldLease, machine: Machine): Run {
    const run = { held, machine, token: held.grant.fencingToken ?? NaN, stopped: false };
    this.#runs.set(held.grant.owner, run);
    return run;
  }

  /** L1: one owner at a time acts, and it is the one that the store has. */
  acts(run: Run, storeOwner: string | undefined): void {
    this.effects++;
    this.operations++;
    const { key, owner } = run.held.grant;
    if (this.#revoked.has(owner)) return;
    if (storeOwner !== owner) this.#fail('L1', `${owner} acts on ${key}, which is ${storeOwner ?? 'nobody'}'s`);
    const acted = this.#largestActed.get(key) ?? 0;
    if (run.token < acted) this.#fail('L1', `${owner} acts on ${key} under ${run.token} after ${acted}`);
    this.#largestActed.set(key, run.token);
  }

  /** The store broke its word, as an evicting one does: what its owner does until it hears of it, no lease can prevent. */
  revoked(owner: string): void {
    this.revocations++;
    this.#revoked.add(owner);
  }

  /** L3: a run's lease was refused a renewal. */
  denied(owner: string): void {
    this.#denied.add(owner);
  }

  aborted(run: Run): void {
    const { key, owner } = run.held.grant;
    if (isSignalsError(run.held.signal.reason, 'SIG_LEASE_LOST')) {
      this.lost++;
      if (!this.#denied.has(owner)) this.#fail('L3', `${owner} was told that ${key} is lost, which the store never said`);
    } else {
      this.expired++;
      if (run.held.remainingMs() > 0) this.#fail('L3', `${owner} was stopped on ${key} with time left`);
    }
  }

  stopped(run: Run): void {
    run.stopped = true;
    this.#runs.delete(run.held.grant.owner);
    this.#denied.delete(run.held.grant.owner);
  }

  /** L7: the store lets a lease go because its owner said so. */
  givenUp(owner: string): void {
    const run = this.#runs.get(owner);
    if (run && !run.stopped) this.#fail('L7', `${owner} gave its lease up while it runs`);
  }

  /** L6: the store accepted a write. */
  written(key: string, token: number): void {
    this.accepted++;
    const largest = this.#largestGiven.get(key) ?? 0;
    if (token !== largest) this.#fail('L6', `a write to ${key} under ${token} was accepted after ${largest} was given out`);
  }

  /** What must hold after each step, of each run that has not been told to stop. */
  check(store: { ownerOf(key: string): string | undefined }): void {
    if (this.#violation) throw this.#violation;
    for (const { held, machine } of this.#runs.values()) {
      const { key, owner } = held.grant;
      if (held.signal.aborted || machine.stopped || this.#schedule.nowMs - machine.resumedAtMs < graceAfterStopMs) continue;
      if (this.#denied.has(owner)) this.#fail('L3', `${owner} goes on although the store said no to ${key}`);
      if (this.#revoked.has(owner)) continue;
      if (store.ownerOf(key) !== owner) this.#fail('L2', `${owner} was not stopped before its lease of ${key} ended`);
    }
    if (this.#violation) throw this.#violation;
  }

  /** Kept for `check` to throw: where it happens, a caller may take any error for one of the network's. */
  #fail(invariant: string, what: string): void {
    this.#violation ??= new Violation(invariant, this.#seed, this.#schedule.nowMs, what);
  }
}
