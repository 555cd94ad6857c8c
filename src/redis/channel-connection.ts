/**
 * Sharded pub/sub on one connection to one node. Pub/sub promises nothing across a reconnect: then everything is subscribed again,
 * and it is told that messages may have been missed. So it is when the node gives no answer for long.
 */

import type { Redis } from 'ioredis';

import type { Clock, Timer } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { AnswerWatch } from './answer-watch.ts';

export interface ChannelConnectionOptions {
  /** Not connected yet; ended with this. */
  readonly connection: Redis;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly message: (channel: string, message: string) => void;
  /** From now on these are heard; until now messages may have been missed. */
  readonly standing: (channels: readonly string[]) => void;
  /** Some of ours are another node's, or are about to be. Which ones shows when they are subscribed again. */
  readonly moved: () => void;
}

/** Between two questions whether the node is there. */
const pingEveryMs = 2000;
/** A node that has not answered for this long is given up. */
const silenceLimitMs = 5000;

export class ChannelConnection {
  readonly channels = new Set<string>();
  readonly #options: ChannelConnectionOptions;
  readonly #connection: Redis;
  readonly #watch: AnswerWatch;
  #timer: Timer | undefined;

  constructor(options: ChannelConnectionOptions) {
    this.#options = options;
    this.#connection = options.connection;
    this.#watch = new AnswerWatch(options.clock);
    this.#connection.on('smessage', options.message);
    this.#connection.on('moved', options.moved);
    this.#connection.on('ready', () => {
      this.#watch.answered();
      this.subscribeAgain();
    });
    this.#connection.connect().catch(() => {}); // it goes on trying by itself, and its errors are logged
    this.#tick();
  }

  add(channels: readonly string[]): void {
    for (const channel of channels) this.channels.add(channel);
    if (this.#isUp) void this.#subscribe(channels);
  }

  subscribeAgain(): void {
    if (this.#isUp) void this.#subscribe([...this.channels]);
  }

  /** What is still heard of them has no listener; after a reconnect nothing is. */
  remove(channels: readonly string[]): void {
    for (const channel of channels) this.channels.delete(channel);
    if (this.#isUp) void this.#tell('unsubscribing', channels, channel => this.#connection.sunsubscribe(channel));
  }

  close(): void {
    this.#timer?.cancel();
    this.#connection.disconnect();
  }

  get #isUp(): boolean {
    return this.#connection.status === 'ready';
  }

  async #subscribe(channels: readonly string[]): Promise<void> {
    if (channels.length === 0) return;
    const isDone = await this.#tell('subscribing', channels, channel => this.#connection.ssubscribe(channel));
    if (isDone) this.#options.standing(channels.filter(channel => this.channels.has(channel)));
  }

  /** One command per channel: those of one command would have to share a slot. */
  async #tell(what: string, channels: readonly string[], command: (channel: string) => Promise<unknown>): Promise<boolean> {
    try {
      await Promise.all(channels.map(command));
      return true;
    } catch (error) {
      // The connection broke: its next `ready` begins again. Or a slot has moved, which is told apart from this.
      this.#options.logger.debug(`${what} failed`, { error: errorMessage(error) });
      return false;
    }
  }

  #tick(): void {
    this.#timer = this.#options.clock.after(pingEveryMs, () => {
      if (this.#isUp) this.#check();
      this.#tick();
    });
  }

  #check(): void {
    this.#watch.check({
      limitMs: silenceLimitMs,
      quietMs: 0, // it mostly listens: what it hears says nothing of whether it hears all
      ask: () => this.#connection.ping(),
      giveUp: () => {
        this.#options.logger.warn('a subscriber got no answer in time; it is connected again', { limitMs: silenceLimitMs });
        this.#connection.disconnect(true);
      },
    });
  }
}
