/** Holds leases: renews them in time, and tells their users to stop before anybody else can have them. */

import type { LeaseProvider } from '../contracts/lease-provider.ts';
import type { LeaseObserver } from '../contracts/observer.ts';
import type { Grant } from '../contracts/thread-mailbox.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { HoldEnd } from '../core/outcomes.ts';
import { SignalsError } from '../core/errors.ts';
import type { LeaseSettings } from './settings.ts';

export interface HeldLease {
  readonly grant: Grant;
  /** Aborts with `SIG_LEASE_LOST` (somebody else has it) or `SIG_LEASE_EXPIRED` (the deadline came) as its reason. */
  readonly signal: AbortSignal;
  /** Milliseconds until this side must have stopped; negative when past. */
  remainingMs(): number;
  /** Throws `SIG_LEASE_LOST` or `SIG_LEASE_EXPIRED`. Synchronous; call it before every effect (L1). */
  assertHeld(): void;
  /** Stop renewing: the lease was or is about to be given up or moved on. Idempotent; tells the observer why. */
  drop(end: HoldEnd): void;
}

export interface LeaseKeeperOptions {
  provider: LeaseProvider;
  /** Read anew for each renewal. */
  settings: () => LeaseSettings;
  clock?: Clock;
  observer?: LeaseObserver;
  logger?: Logger;
  random?: () => number;
}

export class LeaseKeeper {
  constructor(options: LeaseKeeperOptions) {
    void options;
  }

  /** Throws `SIG_LEASE_EXPIRED` if the grant's own deadline has already passed. */
  hold(grant: Grant): HeldLease {
    throw new SignalsError('SIG_INTERNAL', `not there yet: ${grant.key}`);
  }

  get heldCount(): number {
    return 0;
  }

  close(): void {}
}
