/**
 * What this instance hears of the output of threads that somebody here follows. One subscription per thread however many
 * follow it; a reader that is slow, or missed something, finds the rest in the log of the instance that has it.
 */

import type { Event, PubSub } from '../../contracts/pubsub.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import { threadName } from '../../contracts/thread.ts';
import type { Clock } from '../../core/clock.ts';
import { sleep } from '../../core/waits.ts';
import { OutputLog } from './output-log.ts';
import type { LoggedChunk, OutputBatch } from './output-log.ts';

/** Chunks kept for followers that are not done with the ones before. */
const keptForFollowers = 1000;
/** Without a hint for this long a reader looks anyway: the backend may have lost one. */
const lookAnywayMs = 15_000;

export class OutputFeed {
  readonly #log = new OutputLog(keptForFollowers);
  #heard = 0;
  #heardAny = false;
  readonly #waiting = new Set<AbortController>();
  followers = 0;

  /** How often something was heard; see `beyond`. */
  get heard(): number {
    return this.#heard;
  }

  /** What comes after `position`, as far as it is known here; `undefined` when something may be missing in between. */
  after(position: string, limit: number): LoggedChunk[] | undefined {
    return this.#heardAny && this.#log.covers(position) ? this.#log.after(position, limit) : undefined;
  }

  readonly receive = async (event: Event, ack?: () => Promise<void>): Promise<void> => {
    const batch = event.data as OutputBatch;
    if (!this.#heardAny && batch[0]) this.#log.startAfter(batch[0].previous);
    this.#heardAny = true;
    this.#log.follow(batch);
    this.#heard++;
    for (const waiting of this.#waiting) waiting.abort();
    await ack?.();
  };

  /** Resolves when more than `seen` was heard, when `signal` aborts, or when it is time to look anyway. */
  async beyond(seen: number, clock: Clock, signal: AbortSignal): Promise<void> {
    if (this.#heard > seen) return;
    const wake = new AbortController();
    this.#waiting.add(wake);
    await sleep(clock, lookAnywayMs, AbortSignal.any([wake.signal, signal]));
    this.#waiting.delete(wake);
  }
}

export class OutputFeeds {
  readonly #pubsub: PubSub;
  readonly #feeds = new Map<string, { feed: OutputFeed; ready: Promise<void> }>();

  constructor(pubsub: PubSub) {
    this.#pubsub = pubsub;
  }

  async publish(thread: ThreadRef, batch: OutputBatch): Promise<void> {
    await this.#pubsub.publish(outputTopic(thread), { type: 'signals.output', data: batch, runId: '' });
  }

  /** Deletes what the backend keeps. */
  async clear(thread: ThreadRef): Promise<void> {
    await this.#pubsub.clearTopic(outputTopic(thread));
  }

  /** Call `close` for each `open`. */
  async open(thread: ThreadRef): Promise<OutputFeed> {
    const topic = outputTopic(thread);
    let entry = this.#feeds.get(topic);
    if (!entry) {
      const feed = new OutputFeed();
      entry = { feed, ready: this.#pubsub.subscribe(topic, feed.receive) };
      this.#feeds.set(topic, entry);
    }
    entry.feed.followers++;
    try {
      await entry.ready;
    } catch (error) {
      entry.feed.followers--;
      if (this.#feeds.get(topic) === entry) this.#feeds.delete(topic);
      throw error;
    }
    return entry.feed;
  }

  async close(thread: ThreadRef, feed: OutputFeed): Promise<void> {
    const topic = outputTopic(thread);
    if (--feed.followers > 0) return;
    this.#feeds.delete(topic);
    await this.#pubsub.unsubscribe(topic, feed.receive);
  }
}

function outputTopic(thread: ThreadRef): string {
  return `signals.output.${threadName(thread)}`;
}
