/**
 * The end of a run: what it consumed goes, and its thread goes on to the next run, to a peer, or is let go. The lease is given up
 * here and nowhere else, so that it comes after the work has stopped (L7).
 */

import type { SettleRequest, Settlement, ThreadMailbox } from '../contracts/thread-mailbox.ts';
import { backoffMs } from '../core/backoff.ts';
import type { Clock } from '../core/clock.ts';
import { isSignalsError } from '../core/errors.ts';
import { sleep } from '../core/waits.ts';
import type { HeldLease } from '../leases/lease-keeper.ts';

/** For how long an instance that goes offers a thread before it simply lets go of it. */
const offerMs = 1000;

export interface EndRunContext {
  readonly mailbox: ThreadMailbox;
  readonly clock: Clock;
}

/**
 * Without `next` in the request this instance goes, and a peer is to take the thread over without a gap. Until the store has
 * answered, the lease is ours to its deadline and no longer. Throws `SIG_LEASE_LOST`, `SIG_LEASE_EXPIRED`, or what kept the store from
 * answering until then.
 */
export async function endRun(context: EndRunContext, lease: HeldLease, request: SettleRequest): Promise<Settlement> {
  lease.stopRenewing();
  const settlement = await insist(context, lease, request.next ? request : { ...request, offerMs });
  const handedOver = settlement.offered === true && (await endOffer(context, lease, request));
  lease.drop(settlement.grant || handedOver ? 'transferred' : 'released');
  return settlement;
}

/** Gives peers a moment to take the thread over. Answers whether one did; if not, the lease is released. */
async function endOffer(context: EndRunContext, lease: HeldLease, { thread, grant }: SettleRequest): Promise<boolean> {
  await sleep(context.clock, offerMs / 2);
  try {
    await insist(context, lease, { thread, grant, consumed: [] });
    return false;
  } catch (error) {
    if (isSignalsError(error, 'SIG_LEASE_LOST')) return true;
    throw error;
  }
}

/** The very same request each time: if a first try succeeded and its reply was lost, the store recognizes it. */
async function insist({ mailbox, clock }: EndRunContext, lease: HeldLease, request: SettleRequest): Promise<Settlement> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await mailbox.settle(request);
    } catch (error) {
      if (!isSignalsError(error) || !error.retryable || lease.remainingMs() <= 0) throw error;
      await sleep(clock, backoffMs(attempt, 50, 1000), lease.signal);
    }
  }
}
