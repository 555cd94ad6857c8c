/** Asks for a lease in the one safe way. */

import type { LeaseProvider } from '../contracts/lease-provider.ts';
import type { Grant } from '../contracts/thread-mailbox.ts';
import { elapsedMs, instant } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';

/**
 * A grant, or `undefined` when another holds the key. The time is taken before the request is sent (L1). An error is
 * passed on and never means "acquired" (L4). An answer that came after the lease's own deadline (`driftMs` before its
 * end) is worth nothing: the key is given back and the lease counts as not acquired. Give each try a name of its own as
 * `owner`, so that a late give-back of one cannot hit the next.
 */
export async function acquire(
  provider: LeaseProvider,
  key: string,
  owner: string,
  ttlMs: number,
  clock: Clock,
  driftMs = 0,
): Promise<Grant | undefined> {
  const askedAt = instant(clock);
  const { acquired, fencingToken } = await provider.acquireLease(key, owner, ttlMs);
  if (!acquired) return undefined;
  if (elapsedMs(clock, askedAt) >= ttlMs - driftMs) {
    // Should this fail as well, the lease ends by itself.
    await provider.releaseLease(key, owner).catch(() => {});
    return undefined;
  }
  return { key, owner, ttlMs, askedAt, ...(fencingToken === undefined ? {} : { fencingToken }) };
}
