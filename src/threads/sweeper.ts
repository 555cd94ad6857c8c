/**
 * Wakes threads whose signals wait without an owner: left by a drained instance, orphaned by a dead one, or refused by a
 * full one. Every instance looks at every partition; who is first takes a thread, and taking is atomic, so there is
 * nothing to elect.
 */

import type { ThreadRef } from '../contracts/thread.ts';
import type { ThreadMailbox } from '../contracts/thread-mailbox.ts';
import { jitterMs } from '../core/backoff.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { OwnedThreads } from './owned-threads.ts';

/** Threads taken in one sweep: one instance must not swallow all that a dead one left. */
const mostPerSweep = 100;

export interface SweeperOptions {
  mailbox: ThreadMailbox;
  owned: OwnedThreads;
  intervalMs: () => number;
  clock: Clock;
  logger: Logger;
}

export class Sweeper {
  readonly #options: SweeperOptions;
  #timer: Timer | undefined;
  #sweeping: Promise<void> | undefined;
  #stopped = true;
  #failing = false;

  constructor(options: SweeperOptions) {
    this.#options = options;
  }

  start(): void {
    this.#stopped = false;
    this.#schedule();
  }

  /** Resolves when the sweep that may be on is over. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#sweeping;
  }

  /** Takes one thread if it waits without an owner. Answers whether it is ours now. */
  async take(thread: ThreadRef): Promise<boolean> {
    const { mailbox, owned } = this.#options;
    const claim = owned.claim(thread);
    if (!claim || this.#stopped) return false;
    const grant = await mailbox.claim(thread, claim);
    if (!grant) return false;
    owned.start(thread, grant);
    return true;
  }

  #schedule(): void {
    const { clock, intervalMs } = this.#options;
    this.#timer = clock.after(jitterMs(intervalMs()), () => {
      this.#sweeping = this.#sweep().finally(() => {
        this.#sweeping = undefined;
        if (!this.#stopped) this.#schedule();
      });
    });
  }

  async #sweep(): Promise<void> {
    const { mailbox, owned, logger } = this.#options;
    try {
      // Also while there is room for none: looking is what reminds owners of signals whose hint was lost.
      const due = await mailbox.due(Math.min(mostPerSweep, owned.room));
      await Promise.all(due.map(thread => this.take(thread)));
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) logger.warn('sweeping failed; it is tried again at the next interval', { error: errorMessage(error) });
      this.#failing = true;
    }
  }
}
