/** Asks for a lease in the one safe way. */

import type { LeaseProvider } from '../contracts/lease-provider.ts';
import type { Grant } from '../contracts/thread-mailbox.ts';
import { elapsedMs, instant } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';

/**
 * A grant, or `undefined` when another holds the key. The time is taken before the request is sent (L1). An error is
 * passed on and never means "acquired" (L4). An answer that came after the lease's own end is worth nothing: the key is
 * given back and the lease counts as not acquired.
 */
export async function acquire(
  provider: LeaseProvider,
  key: string,
  owner: string,
  ttlMs: number,
  clock: Clock,
): Promise<Grant | undefined> {
  const askedAt = instant(clock);
  const { acquired, fencingToken } = await provider.acquireLease(key, owner, ttlMs);
  if (!acquired) return undefined;
  if (elapsedMs(clock, askedAt) >= ttlMs) {
    await provider.releaseLease(key, owner);
    return undefined;
  }
  return { key, owner, ttlMs, askedAt, ...(fencingToken === undefined ? {} : { fencingToken }) };
}
