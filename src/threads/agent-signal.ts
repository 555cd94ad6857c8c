/** What an agent looks at to know whether it may still act. */

import type { HeldLease } from '../leases/lease-keeper.ts';

/**
 * Aborts when the lease is gone or `stop` aborts. Timers don't fire during a stall (a paused process, a blocked event loop), and
 * the agent's may be the first to fire after one: so whoever looks at `aborted`, or calls `throwIfAborted`, reads the clock,
 * and hears of a deadline that nobody has been told of yet (L1).
 */
export function agentSignal(lease: HeldLease, stop: AbortSignal): AbortSignal {
  const signal = AbortSignal.any([lease.signal, stop]);
  const aborted = () => {
    try {
      lease.assertHeld();
    } catch {
      // If the lease was lost, that has just aborted its signal. If it was given up in order, there is nothing to tell.
    }
    return lease.signal.aborted || stop.aborted;
  };
  return Object.defineProperties(signal, {
    aborted: { get: aborted },
    throwIfAborted: {
      value: () => {
        if (aborted()) throw signal.reason;
      },
    },
  });
}
