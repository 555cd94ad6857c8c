/** A thread's lease as the mailbox uses it: grants with their time of asking, and failures as ours. */

import { NoopLeaseProvider } from '../../contracts/lease-provider.ts';
import type { LeaseProvider } from '../../contracts/lease-provider.ts';
import { threadLeaseKey } from '../../contracts/thread.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import type { Grant, LeaseClaim } from '../../contracts/thread-mailbox.ts';
import { instant } from '../../core/clock.ts';
import type { Clock } from '../../core/clock.ts';
import { errorMessage, invalidOption, SignalsError } from '../../core/errors.ts';

export class ThreadLeases {
  readonly #provider: LeaseProvider;
  readonly #clock: Clock;

  constructor(provider: LeaseProvider, clock: Clock) {
    if (provider === NoopLeaseProvider) {
      throw invalidOption('leases', provider, 'a provider that tells owners apart; in one process, in-memory leases do');
    }
    this.#provider = provider;
    this.#clock = clock;
  }

  ownerOf(thread: ThreadRef): Promise<string | undefined> {
    return attempt('reading the owner of a thread', () => this.#provider.getLeaseOwner(threadLeaseKey(thread)));
  }

  /** `undefined`: another holds it. For its own owner it is the grant that it has, with the TTL refreshed. */
  async acquire(thread: ThreadRef, { owner, ttlMs }: LeaseClaim): Promise<Grant | undefined> {
    const key = threadLeaseKey(thread);
    const askedAt = instant(this.#clock);
    const { acquired, fencingToken } = await attempt('acquiring a thread', () =>
      this.#provider.acquireLease(key, owner, ttlMs),
    );
    return acquired ? { key, owner, ttlMs, askedAt, ...(fencingToken !== undefined && { fencingToken }) } : undefined;
  }

  /** `undefined`: `from` no longer held it. */
  async transfer(thread: ThreadRef, from: string, to: LeaseClaim): Promise<Grant | undefined> {
    const key = threadLeaseKey(thread);
    const moved = await attempt('handing a thread on', () =>
      this.#provider.transferLease(key, from, to.owner, to.ttlMs),
    );
    // The contract's transfer tells no token; asking again as the owner does.
    return moved ? await this.acquire(thread, to) : undefined;
  }

  release(thread: ThreadRef, owner: string): Promise<void> {
    return attempt('releasing a thread', () => this.#provider.releaseLease(threadLeaseKey(thread), owner));
  }
}

async function attempt<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SignalsError) throw error;
    throw new SignalsError('SIG_STORE_UNAVAILABLE', `${what} failed: ${errorMessage(error)}`, { cause: error });
  }
}
