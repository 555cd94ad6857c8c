/**
 * A run's way to its thread's output: in order, fenced, several chunks a round trip. While one batch is on its way the next
 * one gathers; a writer that is too fast waits.
 */

import type { Chunk } from '../contracts/agent.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type { ThreadMailbox } from '../contracts/thread-mailbox.ts';
import type { Clock } from '../core/clock.ts';
import type { HeldLease } from '../leases/lease-keeper.ts';
import { whileHeld } from './while-held.ts';

/** Chunks of one append, and how many may gather before the agent has to wait. */
const batchSize = 64;
const mostGathered = 256;

export interface RunOutputOptions {
  mailbox: ThreadMailbox;
  thread: ThreadRef;
  lease: HeldLease;
  clock: Clock;
  /** Somebody asked to abort the run. May be called more than once. */
  onAbortRequested: () => void;
}

export class RunOutput {
  readonly #options: RunOutputOptions;
  #gathered: Chunk[] = [];
  #sending: Promise<void> | undefined;
  #failure: { error: unknown } | undefined;

  constructor(options: RunOutputOptions) {
    this.#options = options;
  }

  /** Throws when the lease is gone or an earlier chunk could not be put out. */
  async write(chunk: Chunk): Promise<void> {
    this.#options.lease.assertHeld();
    this.#gathered.push(chunk);
    this.#sending ??= this.#send();
    if (this.#gathered.length >= mostGathered) await this.#sending;
    this.#assertSound();
  }

  /** Resolves when everything is out. */
  async flush(): Promise<void> {
    await this.#sending;
    this.#assertSound();
  }

  async #send(): Promise<void> {
    const { mailbox, thread, lease, clock, onAbortRequested } = this.#options;
    try {
      // Chunks that an agent yields without waiting go together.
      await Promise.resolve();
      while (this.#gathered.length > 0) {
        const batch = this.#gathered.splice(0, batchSize);
        const { abortRequested } = await whileHeld(lease, clock, () => mailbox.append(thread, lease.grant, batch));
        if (abortRequested) onAbortRequested();
      }
    } catch (error) {
      this.#failure = { error };
    }
    this.#sending = undefined;
  }

  #assertSound(): void {
    if (this.#failure) throw this.#failure.error;
  }
}
