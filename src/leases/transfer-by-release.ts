/** For providers whose store cannot hand a lease over in one step. */

import type { LeaseProvider } from '../contracts/lease-provider.ts';

/**
 * `transferLease` made of the other methods: release, then acquire. Between the two the key is empty for a moment, in which
 * a third may take it; then the answer is `false`, as if `fromOwner` had lost it, and the third stays the owner. So whoever
 * hands over this way must be able to go on without the lease, and a receiver must not start before it has the answer.
 * Asked again after a lost reply it answers `true` if `toOwner` has the lease by now.
 */
export async function transferByRelease(
  provider: Omit<LeaseProvider, 'transferLease'>,
  key: string,
  fromOwner: string,
  toOwner: string,
  ttlMs: number,
): Promise<boolean> {
  // Renewed first, so that it is `fromOwner`'s own lease that is released and not one that just ended.
  const isOurs = await provider.renewLease(key, fromOwner, ttlMs);
  if (!isOurs && (await provider.getLeaseOwner(key)) !== toOwner) return false;
  if (isOurs) await provider.releaseLease(key, fromOwner);
  return (await provider.acquireLease(key, toOwner, ttlMs)).acquired;
}
