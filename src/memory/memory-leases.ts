/** Leases within one process, for the embedded backend and for tests. */

import { checkedTtlMs } from '../contracts/lease-provider.ts';
import type { BatchLeaseProvider, HeldKey, LeaseAcquisition } from '../contracts/lease-provider.ts';
import { systemClock } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';

interface Lease {
  owner: string;
  token: number;
  expiresAtMs: number;
}

/** What has expired is removed when the table has doubled since the last look, so that its size follows the leases held. */
const firstSweepAt = 64;

export class MemoryLeaseProvider implements BatchLeaseProvider {
  readonly #clock: Clock;
  readonly #leases = new Map<string, Lease>();
  #lastToken = 0;
  #sweepAt = firstSweepAt;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  async acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    checkedTtlMs(ttlMs);
    const lease = this.#current(key);
    if (lease && lease.owner !== owner) return { acquired: false, owner: lease.owner };
    if (lease) {
      this.#extend(lease, ttlMs);
      return { acquired: true, owner, fencingToken: lease.token };
    }
    return { acquired: true, owner, fencingToken: this.#give(key, owner, ttlMs) };
  }

  async getLeaseOwner(key: string): Promise<string | undefined> {
    return this.#current(key)?.owner;
  }

  async releaseLease(key: string, owner: string): Promise<void> {
    if (this.#current(key)?.owner === owner) this.#leases.delete(key);
  }

  async renewLease(key: string, owner: string, ttlMs: number): Promise<boolean> {
    checkedTtlMs(ttlMs);
    const lease = this.#current(key);
    if (lease?.owner !== owner) return false;
    this.#extend(lease, ttlMs);
    return true;
  }

  async renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<boolean[]> {
    return await Promise.all(leases.map(({ key, owner }) => this.renewLease(key, owner, ttlMs)));
  }

  async transferLease(key: string, fromOwner: string, toOwner: string, ttlMs: number): Promise<boolean> {
    checkedTtlMs(ttlMs);
    const lease = this.#current(key);
    if (lease && lease.owner === toOwner) this.#extend(lease, ttlMs); // a retry
    else if (lease?.owner === fromOwner) this.#give(key, toOwner, ttlMs);
    else return false;
    return true;
  }

  #current(key: string): Lease | undefined {
    const lease = this.#leases.get(key);
    if (!lease || lease.expiresAtMs > this.#clock.monotonicMs()) return lease;
    this.#leases.delete(key);
    return undefined;
  }

  /** A time that was promised is never shortened. */
  #extend(lease: Lease, ttlMs: number): void {
    lease.expiresAtMs = Math.max(lease.expiresAtMs, this.#clock.monotonicMs() + ttlMs);
  }

  /** Tokens follow the wall clock's microseconds, so that they also grow over restarts of the process (L5). */
  #give(key: string, owner: string, ttlMs: number): number {
    if (this.#leases.size >= this.#sweepAt) this.#sweep();
    this.#lastToken = Math.max(this.#lastToken + 1, Math.floor(this.#clock.wallMs() * 1000));
    this.#leases.set(key, { owner, token: this.#lastToken, expiresAtMs: this.#clock.monotonicMs() + ttlMs });
    return this.#lastToken;
  }

  #sweep(): void {
    for (const key of this.#leases.keys()) this.#current(key);
    this.#sweepAt = Math.max(firstSweepAt, this.#leases.size * 2);
  }
}
