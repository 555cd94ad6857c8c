/**
 * What leases are, as simply as it can be said: a table and a clock. Providers are compared with it, step by step.
 *
 * Tokens have no value here, only an order: each step says whether the answer must carry a token that was given before
 * (`same`), a new and larger one (`new`), or none.
 */

export interface ModelLease {
  owner: string;
  expiresAtMs: number;
  /** Whether the store knows a token for it; the original backend's leases have none, and tokens may be evicted. */
  hasToken: boolean;
}

export type TokenRule = 'same' | 'new';

export type ModelAcquisition = { acquired: false; owner: string } | { acquired: true; owner: string; token: TokenRule };

export class LeaseModel {
  nowMs = 0;
  readonly #leases = new Map<string, ModelLease>();

  lease(key: string): ModelLease | undefined {
    const lease = this.#leases.get(key);
    if (lease && lease.expiresAtMs > this.nowMs) return lease;
    this.#leases.delete(key);
    return undefined;
  }

  acquire(key: string, owner: string, ttlMs: number): ModelAcquisition {
    const lease = this.lease(key);
    if (!lease) {
      this.#give(key, owner, ttlMs);
      return { acquired: true, owner, token: 'new' };
    }
    if (lease.owner !== owner) return { acquired: false, owner: lease.owner };
    const token = lease.hasToken ? 'same' : 'new';
    lease.hasToken = true;
    this.#extend(lease, ttlMs);
    return { acquired: true, owner, token };
  }

  renew(key: string, owner: string, ttlMs: number): boolean {
    const lease = this.lease(key);
    if (lease?.owner !== owner) return false;
    this.#extend(lease, ttlMs);
    return true;
  }

  transfer(key: string, from: string, to: string, ttlMs: number): boolean {
    const lease = this.lease(key);
    if (lease?.owner === to) this.#extend(lease, ttlMs);
    else if (lease?.owner === from) this.#give(key, to, ttlMs);
    else return false;
    return true;
  }

  release(key: string, owner: string): void {
    if (this.lease(key)?.owner === owner) this.#leases.delete(key);
  }

  /** The original backend beside us: no tokens, and a renewal sets the time as it says. */
  acquireByOriginal(key: string, owner: string, ttlMs: number): void {
    if (!this.lease(key)) this.#leases.set(key, { owner, expiresAtMs: this.nowMs + ttlMs, hasToken: false });
  }

  renewByOriginal(key: string, owner: string, ttlMs: number): void {
    const lease = this.lease(key);
    if (lease?.owner === owner) lease.expiresAtMs = this.nowMs + ttlMs;
  }

  evictToken(key: string): void {
    const lease = this.lease(key);
    if (lease) lease.hasToken = false;
  }

  evictLease(key: string): void {
    this.#leases.delete(key);
  }

  #give(key: string, owner: string, ttlMs: number): void {
    this.#leases.set(key, { owner, expiresAtMs: this.nowMs + ttlMs, hasToken: true });
  }

  #extend(lease: ModelLease, ttlMs: number): void {
    lease.expiresAtMs = Math.max(lease.expiresAtMs, this.nowMs + ttlMs);
  }
}
