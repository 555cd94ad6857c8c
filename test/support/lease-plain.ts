/** A provider whose store knows no atomic hand-over: what a user would write on top of a simple lock service. */

import type { LeaseAcquisition, LeaseProvider } from '../../src/contracts/lease-provider.ts';
import { transferByRelease } from '../../src/leases/transfer-by-release.ts';

export class PlainLeases implements LeaseProvider {
  /** Called while a key that is being handed over is empty. */
  whileEmpty: () => Promise<void> = () => Promise.resolve();
  readonly #store: LeaseProvider;

  constructor(store: LeaseProvider) {
    this.#store = store;
  }

  async acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    const { fencingToken: _none, ...answer } = await this.#store.acquireLease(key, owner, ttlMs);
    return answer;
  }

  getLeaseOwner(key: string): Promise<string | undefined> {
    return this.#store.getLeaseOwner(key);
  }

  async releaseLease(key: string, owner: string): Promise<void> {
    await this.#store.releaseLease(key, owner);
    await this.whileEmpty();
  }

  renewLease(key: string, owner: string, ttlMs: number): Promise<boolean> {
    return this.#store.renewLease(key, owner, ttlMs);
  }

  transferLease(key: string, fromOwner: string, toOwner: string, ttlMs: number): Promise<boolean> {
    return transferByRelease(this, key, fromOwner, toOwner, ttlMs);
  }
}
