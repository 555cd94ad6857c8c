/** What becomes of feeds whose read failed: each is read again, alone and later; what is gone is made anew, what moved is followed. */

import { backoffMs } from '../../core/backoff.ts';
import { errorMessage } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { isMoved, isNoGroup, isTransient } from '../failures.ts';
import type { Feed } from './feed.ts';
import type { GroupCommands } from './group-commands.ts';
import { GroupFeed } from './group-feed.ts';

export interface FailedReadsOptions {
  readonly commands: GroupCommands;
  readonly logger: Logger;
  /** A stream is not served by this node any more. */
  readonly moved: (feed: Feed) => void;
  readonly ring: (feed: Feed) => void;
  readonly later: (delayMs: number, action: () => void) => void;
  /** Whether a stream's next write rings. */
  readonly isRung: () => boolean;
}

export class FailedReads {
  readonly #options: FailedReadsOptions;

  constructor(options: FailedReadsOptions) {
    this.#options = options;
  }

  add(feeds: readonly Feed[], error: unknown): void {
    for (const feed of feeds) {
      feed.schedule.state = 'idle';
      // One feed of many is the cause: each is read alone until it has been read.
      if (feeds.length > 1) {
        feed.schedule.alone = true;
        this.#options.ring(feed);
      } else {
        this.#failedAlone(feed, error);
      }
    }
  }

  #failedAlone(feed: Feed, error: unknown): void {
    feed.schedule.failures++;
    if (isMoved(error)) return this.#options.moved(feed);
    if (isNoGroup(error) && feed instanceof GroupFeed) return void this.#recover(feed);
    if (!isTransient(error) && feed.schedule.failures === 1) {
      this.#options.logger.warn('a stream cannot be read; it is tried again', {
        topic: feed.topic,
        group: feed.group,
        error: errorMessage(error),
      });
    }
    this.#ringLater(feed, 50);
  }

  async #recover(feed: GroupFeed): Promise<void> {
    try {
      const made = await this.#options.commands.recover(feed);
      // Without a stream there is nothing to do: its next write rings.
      if (!made && this.#options.isRung()) return;
    } catch (error) {
      this.#options.logger.debug('a consumer group could not be re-created yet', {
        topic: feed.topic,
        group: feed.group,
        error: errorMessage(error),
      });
    }
    this.#ringLater(feed, 20);
  }

  #ringLater(feed: Feed, firstDelayMs: number): void {
    this.#options.later(backoffMs(feed.schedule.failures, firstDelayMs, 5000), () => this.#options.ring(feed));
  }
}
