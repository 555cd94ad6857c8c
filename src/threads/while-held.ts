/** "No answer" does not end a run (L3): what the store could not be asked is asked again for as long as the lease stands. */

import { backoffMs } from '../core/backoff.ts';
import type { Clock } from '../core/clock.ts';
import { isSignalsError } from '../core/errors.ts';
import { sleep } from '../core/waits.ts';
import type { HeldLease } from '../leases/lease-keeper.ts';

/** Throws what `step` throws that is not retryable, or `SIG_LEASE_LOST` / `SIG_LEASE_EXPIRED` when the lease ends first. */
export async function whileHeld<T>(lease: HeldLease, clock: Clock, step: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    lease.assertHeld();
    try {
      return await step();
    } catch (error) {
      if (!isSignalsError(error) || !error.retryable) throw error;
      await sleep(clock, backoffMs(attempt, 50, 1000), lease.signal);
    }
  }
}
