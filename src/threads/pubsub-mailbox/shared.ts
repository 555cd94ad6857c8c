/** What the parts of a mailbox on PubSub have in common. */

import { parseOwner, threadName } from '../../contracts/thread.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import type { MailboxLimits } from '../../contracts/thread-mailbox.ts';
import { elapsedMs, instant } from '../../core/clock.ts';
import type { Clock } from '../../core/clock.ts';
import { SignalsError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { sleep } from '../../core/waits.ts';
import type { Listeners } from './listeners.ts';
import type { LocalThreads } from './local-threads.ts';
import type { ThreadLeases } from './thread-leases.ts';
import type { Turns } from './turns.ts';

export interface Shared {
  /** The instance part of this process's owners. */
  readonly instanceId: string;
  readonly limits: MailboxLimits;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Longest wait for another instance, ms. */
  readonly replyLimitMs: number;
  /** Who owns a thread: the one thing that all processes agree on. */
  readonly leases: ThreadLeases;
  /** What this process holds of threads. */
  readonly threads: LocalThreads;
  /** One step at a time for each thread. */
  readonly turns: Turns;
  readonly listeners: Listeners;
}

export function instanceOf(owner: string): string {
  return parseOwner(owner).instanceId;
}

export function runOf(owner: string): string {
  return parseOwner(owner).runId;
}

export function isOwn({ instanceId }: Pick<Shared, 'instanceId'>, owner: string): boolean {
  return instanceOf(owner) === instanceId;
}

/** Between two looks at a thread whose owner changes while we look. */
const retryPauseMs = 5;

/** The owner may change between looking and acting: then look again, within a limit. Throws `SIG_OWNER_UNREACHABLE`. */
export async function untilSettled<T>(
  { clock, replyLimitMs }: Pick<Shared, 'clock' | 'replyLimitMs'>,
  thread: ThreadRef,
  attempt: () => Promise<T | undefined>,
): Promise<T> {
  const startedAt = instant(clock);
  for (;;) {
    const outcome = await attempt();
    if (outcome !== undefined) return outcome;
    if (elapsedMs(clock, startedAt) > replyLimitMs) {
      throw new SignalsError('SIG_OWNER_UNREACHABLE', `the owner of ${threadName(thread)} can't be found`);
    }
    await sleep(clock, retryPauseMs);
  }
}
