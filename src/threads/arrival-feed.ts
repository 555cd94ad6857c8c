/** Brings what arrives during a run into it, whenever there is notice. */

import type { ThreadRef } from '../contracts/thread.ts';
import type { ThreadMailbox } from '../contracts/thread-mailbox.ts';
import type { Clock } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { HeldLease } from '../leases/lease-keeper.ts';
import type { Run } from './run.ts';
import { whileHeld } from './while-held.ts';

export interface ArrivalFeedOptions {
  mailbox: ThreadMailbox;
  clock: Clock;
  logger: Logger;
  thread: ThreadRef;
  lease: HeldLease;
  run: Run;
  /** How far the inbox was read when the run began. */
  cursor: string;
}

export class ArrivalFeed {
  readonly #options: ArrivalFeedOptions;
  #cursor: string;
  #noticed = false;
  #stopped = false;
  #looking: Promise<void> | undefined;

  constructor(options: ArrivalFeedOptions) {
    this.#options = options;
    this.#cursor = options.cursor;
  }

  notice(): void {
    this.#noticed = true;
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
  }

  /** Resolves when nothing more will come from here. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#looking;
  }

  async #look(): Promise<void> {
    try {
      while (this.#noticed && !this.#stopped) {
        this.#noticed = false;
        await this.#takeOnce();
      }
    } catch (error) {
      // A lost lease ends the run by itself. After anything else the signals still wait, for the next notice or the next run.
      this.#options.logger.debug('looking for arrivals failed', { error: errorMessage(error) });
    }
  }

  async #takeOnce(): Promise<void> {
    const { mailbox, clock, thread, lease, run } = this.#options;
    const join = { agentId: run.agentId, cursor: this.#cursor };
    const taken = await whileHeld(lease, clock, () => mailbox.take({ thread, grant: lease.grant, join }));
    this.#cursor = taken.cursor;
    if (taken.abortRequested) run.stop('aborted');
    if (taken.entries.length > 0) run.join(taken.entries);
    if (taken.more) this.#noticed = true;
  }
}
