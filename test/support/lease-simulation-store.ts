/** The store of the simulation: the provider in memory on the server's clock, with fenced writes, and outages. */

import type { LeaseAcquisition } from '../../src/contracts/lease-provider.ts';
import type { Clock } from '../../src/core/clock.ts';
import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { MemoryLeaseProvider } from '../../src/memory/memory-leases.ts';
import type { LeaseJudge } from './lease-simulation-judge.ts';
import type { Machine, Schedule } from './lease-simulation-time.ts';

interface Held {
  owner: string;
  token: number | undefined;
}

export class SimulatedStore {
  broken: 'refuses' | 'swallows' | undefined;
  readonly #leases: MemoryLeaseProvider;
  readonly #judge: LeaseJudge;
  readonly #fence: boolean;
  readonly #countersSurvive: boolean;
  /** What was given last for each key; whether it still holds, the expiry decides. */
  readonly #last = new Map<string, Held & { expiresAtMs: number }>();
  readonly #clock: Clock;

  constructor(machine: Machine, judge: LeaseJudge, parts: { fence: boolean; countersSurvive: boolean }) {
    // Expiry at the server goes by its wall clock, as in Redis.
    this.#clock = { monotonicMs: () => machine.wallMs(), wallMs: () => machine.wallMs(), after: (ms, action) => machine.after(ms, action) };
    this.#leases = new MemoryLeaseProvider(this.#clock);
    this.#judge = judge;
    this.#fence = parts.fence;
    this.#countersSurvive = parts.countersSurvive;
  }

  breakFor(ms: number, schedule: Schedule): void {
    if (this.broken) return;
    this.broken = ms > 1000 && Math.round(ms) % 2 === 0 ? 'swallows' : 'refuses';
    schedule.in(ms, () => (this.broken = undefined));
  }

  /** Forgets a lease before its time. */
  async evict(key: string): Promise<void> {
    const owner = this.ownerOf(key);
    if (owner === undefined) return;
    this.#judge.revoked(owner);
    this.#last.delete(key);
    await this.#leases.releaseLease(key, owner);
  }

  ownerOf(key: string): string | undefined {
    const last = this.#last.get(key);
    return last && last.expiresAtMs > this.#clock.monotonicMs() ? last.owner : undefined;
  }

  async acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    const answer = await this.#leases.acquireLease(key, owner, ttlMs);
    if (!this.#countersSurvive) answer.fencingToken = (this.#last.get(key)?.token ?? 0) + 1;
    if (answer.acquired) this.#note(key, owner, ttlMs, answer.fencingToken);
    return answer;
  }

  async renewLeases(leases: readonly { key: string; owner: string }[], ttlMs: number): Promise<boolean[]> {
    const answers = await this.#leases.renewLeases(leases, ttlMs);
    for (const [at, { key, owner }] of leases.entries()) {
      if (answers[at]) this.#note(key, owner, ttlMs, this.#last.get(key)?.token);
    }
    return answers;
  }

  async releaseLease(key: string, owner: string): Promise<void> {
    if (this.ownerOf(key) === owner) {
      this.#judge.givenUp(owner);
      this.#last.delete(key);
    }
    await this.#leases.releaseLease(key, owner);
  }

  async transferLease(key: string, from: string, to: string, ttlMs: number): Promise<boolean> {
    if (this.ownerOf(key) === from) this.#judge.givenUp(from);
    const moved = await this.#leases.transferLease(key, from, to, ttlMs);
    if (!moved) return false;
    const { fencingToken } = await this.#leases.acquireLease(key, to, ttlMs); // as its receiver will, to know the token
    this.#note(key, to, ttlMs, fencingToken);
    return true;
  }

  /** A write of a run through the store: accepted only from the owner, under the token of its grant. */
  write({ key, owner, fencingToken }: Grant): void {
    const isOwner = this.ownerOf(key) === owner && this.#last.get(key)?.token === fencingToken;
    if (isOwner || !this.#fence) this.#judge.written(key, fencingToken ?? NaN);
    else this.#judge.refused++;
  }

  #note(key: string, owner: string, ttlMs: number, token: number | undefined): void {
    const expiresAtMs = this.#clock.monotonicMs() + ttlMs;
    const last = this.#last.get(key);
    const isSame = last?.owner === owner && last.token === token;
    this.#last.set(key, { owner, token, expiresAtMs: isSame ? Math.max(last.expiresAtMs, expiresAtMs) : expiresAtMs });
    if (!isSame) this.#judge.given(key, owner, token ?? NaN);
  }
}
