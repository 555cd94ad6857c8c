/**
 * Sharded pub/sub: who listens to which channel. One connection per node that has channels of ours, as slots are in a Cluster; one
 * in all otherwise. Hints may be lost, and listeners are told when they may have been.
 */

import type { Redis } from 'ioredis';

import type { Clock, Timer } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import { ChannelConnection } from './channel-connection.ts';
import { nodeServing } from './cluster-nodes.ts';
import type { ServingNode } from './cluster-nodes.ts';
import type { RedisClient, RedisConnector } from './connection.ts';

export interface ChannelListener {
  onMessage(message: string): void;
  /** Messages may have been missed. Also called when a subscription first stands. */
  onResync(): void;
}

export interface ShardedChannelsOptions {
  readonly connector: RedisConnector;
  /** Knows the map of slots. Stays the caller's. */
  readonly client: RedisClient;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** How long after "moved" the map of slots is asked for again, when the first answer did not say who has a channel now. */
const placeAgainMs = 200;

export class ShardedChannels {
  readonly #options: ShardedChannelsOptions;
  readonly #listeners = new Map<string, Set<ChannelListener>>();
  readonly #connections = new Map<string, ChannelConnection>();
  readonly #standing = new Set<string>();
  #waiting: { channels: readonly string[]; resolve: () => void }[] = [];
  /** Some of their channels are another node's. */
  readonly #movedFrom = new Set<ChannelConnection>();
  #placing: Timer | undefined;
  #closed = false;

  constructor(options: ShardedChannelsOptions) {
    this.#options = options;
    if ('slots' in options.client) options.client.on('refresh', () => this.#placeAll());
  }

  /** Resolves when all of them are heard, or this is closed. Whoever can do with `onResync` need not wait. */
  async add(channels: readonly string[], listener: ChannelListener): Promise<void> {
    if (this.#closed) return;
    const fresh = channels.filter(channel => !this.#listeners.has(channel));
    for (const channel of channels) {
      const listeners = this.#listeners.get(channel) ?? new Set();
      this.#listeners.set(channel, listeners.add(listener));
    }
    this.#place(fresh);
    if (channels.some(channel => this.#standing.has(channel))) listener.onResync();
    if (channels.every(channel => this.#standing.has(channel))) return;
    await new Promise<void>(resolve => void this.#waiting.push({ channels, resolve }));
  }

  remove(channels: readonly string[], listener: ChannelListener): void {
    const idle = channels.filter(channel => {
      const listeners = this.#listeners.get(channel);
      listeners?.delete(listener);
      return listeners?.size === 0;
    });
    for (const channel of idle) {
      this.#listeners.delete(channel);
      this.#standing.delete(channel);
    }
    this.#tellWaiting();
    for (const connection of this.#connections.values()) {
      const here = idle.filter(channel => connection.channels.has(channel));
      if (here.length > 0) connection.remove(here);
    }
  }

  close(): void {
    this.#closed = true;
    this.#placing?.cancel();
    for (const connection of this.#connections.values()) connection.close();
    this.#connections.clear();
    for (const { resolve } of this.#waiting.splice(0)) resolve();
  }

  /** Each goes to the connection of the node that has it, and away from any other. */
  #place(channels: readonly string[]): void {
    const byConnection = new Map<ChannelConnection, string[]>();
    let isComplete = true;
    for (const channel of channels) {
      const node = nodeServing(this.#options.client, channel);
      if (!node) {
        isComplete = false;
        continue;
      }
      const connection = this.#connectionTo(node);
      const placed = byConnection.get(connection);
      if (placed) placed.push(channel);
      else byConnection.set(connection, [channel]);
    }
    for (const [connection, placed] of byConnection) {
      for (const other of this.#connections.values()) {
        const moved = placed.filter(channel => other !== connection && other.channels.has(channel));
        if (moved.length > 0) other.remove(moved);
      }
      const fresh = placed.filter(channel => !connection.channels.has(channel));
      if (fresh.length > 0) connection.add(fresh);
    }
    if (!isComplete) this.#placeLater();
  }

  /** The map of slots is new. Connections to nodes that have nothing of ours any more are ended. */
  #placeAll(): void {
    if (this.#closed) return;
    this.#place([...this.#listeners.keys()]);
    for (const [name, connection] of this.#connections) {
      if (connection.channels.size > 0) continue;
      connection.close();
      this.#connections.delete(name);
    }
  }

  #placeLater(): void {
    if (this.#closed || this.#placing) return;
    const { client, clock } = this.#options;
    if ('slots' in client) client.refreshSlotsCache();
    this.#placing = clock.after(placeAgainMs, () => {
      this.#placing = undefined;
      this.#placeAll();
      // What is still thought to be theirs is asked for again: if it is not, they say so once more.
      const doubtful = [...this.#movedFrom];
      this.#movedFrom.clear();
      for (const connection of doubtful) connection.subscribeAgain();
    });
  }

  #connectionTo({ name, at }: ServingNode): ChannelConnection {
    const known = this.#connections.get(name);
    if (known) return known;
    const { connector, clock, logger } = this.#options;
    const connection: ChannelConnection = new ChannelConnection({
      connection: at ? connector.openAt(at, 'subscriber') : (connector.open('subscriber') as Redis),
      clock,
      logger,
      message: (channel, message) => {
        for (const listener of this.#listeners.get(channel) ?? []) listener.onMessage(message);
      },
      standing: channels => this.#stand(channels),
      moved: () => {
        this.#movedFrom.add(connection);
        this.#placeLater();
      },
    });
    this.#connections.set(name, connection);
    return connection;
  }

  #stand(channels: readonly string[]): void {
    for (const channel of channels) this.#standing.add(channel);
    const listeners = new Set(channels.flatMap(channel => [...(this.#listeners.get(channel) ?? [])]));
    for (const listener of listeners) listener.onResync();
    this.#tellWaiting();
  }

  /** Nobody waits for a channel that has no listener any more. */
  #tellWaiting(): void {
    const isMissing = (channel: string) => this.#listeners.has(channel) && !this.#standing.has(channel);
    const waiting = this.#waiting;
    this.#waiting = waiting.filter(({ channels }) => channels.some(isMissing));
    for (const { channels, resolve } of waiting) if (!channels.some(isMissing)) resolve();
  }
}
