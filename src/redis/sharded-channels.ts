/**
 * Sharded pub/sub on one connection: who listens to which channel, and what to do when hints may have been lost. Pub/sub
 * promises nothing across a reconnect, so after one everything is subscribed again and every listener is told to look.
 */

import type { Logger } from '../core/logger.ts';
import { silentLogger } from '../core/logger.ts';
import { errorMessage } from '../core/errors.ts';
import type { RedisClient } from './connection.ts';

export interface ChannelListener {
  onMessage(message: string): void;
  /** Messages may have been missed. Also called once when the subscription first stands. */
  onResync(): void;
}

export class ShardedChannels {
  readonly #client: RedisClient;
  readonly #logger: Logger;
  readonly #listeners = new Map<string, Set<ChannelListener>>();

  /** The connection is the caller's to open and close; its `autoResubscribe` must be off. */
  constructor(client: RedisClient, logger: Logger = silentLogger) {
    this.#client = client;
    this.#logger = logger;
    client.on('smessage', (channel: string, message: string) => this.#dispatch(channel, message));
    client.on('ready', () => void this.#subscribeAgain());
  }

  async add(channels: readonly string[], listener: ChannelListener): Promise<void> {
    const fresh = channels.filter(channel => !this.#listeners.has(channel));
    for (const channel of channels) {
      const listeners = this.#listeners.get(channel) ?? new Set();
      this.#listeners.set(channel, listeners.add(listener));
    }
    await this.#subscribe(fresh);
    listener.onResync();
  }

  async remove(channels: readonly string[], listener: ChannelListener): Promise<void> {
    const idle = channels.filter(channel => {
      const listeners = this.#listeners.get(channel);
      listeners?.delete(listener);
      return listeners?.size === 0;
    });
    for (const channel of idle) this.#listeners.delete(channel);
    if (this.#client.status !== 'ready') return; // after a reconnect only what is listened to is subscribed again
    await Promise.all(idle.map(channel => this.#client.sunsubscribe(channel)));
  }

  #dispatch(channel: string, message: string): void {
    for (const listener of this.#listeners.get(channel) ?? []) listener.onMessage(message);
  }

  /** One command per channel: those of one command would have to share a Cluster slot. */
  async #subscribe(channels: readonly string[]): Promise<void> {
    await Promise.all(channels.map(channel => this.#client.ssubscribe(channel)));
  }

  async #subscribeAgain(): Promise<void> {
    try {
      await this.#subscribe([...this.#listeners.keys()]);
      const listeners = new Set([...this.#listeners.values()].flatMap(set => [...set]));
      for (const listener of listeners) listener.onResync();
    } catch (error) {
      // The connection broke again; its next `ready` comes back here.
      this.#logger.debug('resubscribing failed', { error: errorMessage(error) });
    }
  }
}
