/**
 * One owner per key, until a deadline. A provider is whatever has all five methods: detection is structural, so that
 * it works across packages and copies of packages.
 */

import { invalidOption } from '../core/errors.ts';

export interface LeaseAcquisition {
  acquired: boolean;
  /** Who holds the key; absent when that could not be read. */
  owner?: string;
  /**
   * Grows with every change of owner. Only providers that can keep that promise give one; callers that don't know it
   * are not disturbed.
   */
  fencingToken?: number;
}

export interface LeaseProvider {
  /** Atomic. The same owner again: acquired, with the TTL refreshed and the same token. */
  acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition>;
  getLeaseOwner(key: string): Promise<string | undefined>;
  /** Nothing happens unless `owner` holds the key; check and delete are one step. */
  releaseLease(key: string, owner: string): Promise<void>;
  /** `false` means lost: expired, or another's. */
  renewLease(key: string, owner: string, ttlMs: number): Promise<boolean>;
  /**
   * Hands the key over without it ever being empty, with a fresh TTL and a new token. `false` means that `fromOwner`
   * had lost it; then `acquireLease` is the way. A backend that can't do this in one step still implements it, as
   * release and then acquire, and says so.
   */
  transferLease(key: string, fromOwner: string, toOwner: string, ttlMs: number): Promise<boolean>;
}

export interface HeldKey {
  key: string;
  owner: string;
}

/**
 * A provider that renews many leases in few round trips. Answers in the order of `leases`: `false` means lost, an error
 * that this one could not be asked for, which says nothing of the others (a Cluster may have lost one node of many).
 */
export interface BatchLeaseProvider extends LeaseProvider {
  renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<(boolean | Error)[]>;
}

const leaseMethods = ['acquireLease', 'getLeaseOwner', 'releaseLease', 'renewLease', 'transferLease'] as const;

export function isLeaseProvider(value: unknown): value is LeaseProvider {
  return hasMethods(value, leaseMethods);
}

export function isBatchLeaseProvider(value: unknown): value is BatchLeaseProvider {
  return hasMethods(value, [...leaseMethods, 'renewLeases']);
}

/** Every acquire wins and the rest does nothing: one process behaves as if there were no leases. */
export const NoopLeaseProvider: LeaseProvider = {
  acquireLease: (_key, owner) => Promise.resolve({ acquired: true, owner }),
  getLeaseOwner: () => Promise.resolve(undefined),
  releaseLease: () => Promise.resolve(),
  renewLease: () => Promise.resolve(true),
  transferLease: () => Promise.resolve(true),
};

/** The leases of a backend: its own, those of what it wraps (`getLeaseProvider()`), or none that coordinate. */
export function leaseProviderOf(backend: unknown): LeaseProvider {
  if (isLeaseProvider(backend)) return backend;
  if (hasMethods(backend, ['getLeaseProvider'])) {
    const provider: unknown = (backend as { getLeaseProvider(): unknown }).getLeaseProvider();
    if (isLeaseProvider(provider)) return provider;
  }
  return NoopLeaseProvider;
}

/** `ttlMs` as it is, or `SIG_OPTION_INVALID`: what is no time in whole milliseconds would be no lease. */
export function checkedTtlMs(ttlMs: number): number {
  if (Number.isSafeInteger(ttlMs) && ttlMs >= 1) return ttlMs;
  throw invalidOption('ttlMs', ttlMs, 'a whole number of milliseconds, at least 1');
}

function hasMethods(value: unknown, names: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return names.every(name => typeof (value as Record<string, unknown>)[name] === 'function');
}
