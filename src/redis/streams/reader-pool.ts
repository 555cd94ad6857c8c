/** One reader per Redis node that holds our streams: one in all on a standalone server or behind Sentinel. */

import type { Redis, RedisOptions } from 'ioredis';

import type { Clock, Timer } from '../../core/clock.ts';
import type { Logger } from '../../core/logger.ts';
import { nodeServing } from '../cluster-nodes.ts';
import type { ServingNode } from '../cluster-nodes.ts';
import type { ConnectionRole, RedisConnector } from '../connection.ts';
import type { Feed } from './feed.ts';
import type { GroupFeed } from './group-feed.ts';
import type { GroupCommands } from './group-commands.ts';
import type { MainConnection } from './main-connection.ts';
import { NodeReader } from './node-reader.ts';
import type { StreamsSettings } from './options.ts';

export interface ReaderPoolOptions {
  readonly connector: RedisConnector;
  readonly main: MainConnection;
  readonly settings: StreamsSettings;
  readonly commands: GroupCommands;
  readonly returned: (feed: GroupFeed) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

const connectionOptions: RedisOptions = {
  // Commands of a connection that went are not sent again: the reader looks at what was lost and reads anew.
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  // RESP2 frames of these replies are smaller and cheaper to read.
  protocol: 2,
};
/** How long after "moved" the map of slots is asked for again, when the first answer did not have the stream. */
const rehomeDelayMs = 100;

export class ReaderPool {
  readonly #options: ReaderPoolOptions;
  readonly #readers = new Map<string, NodeReader>();
  readonly #homeless = new Set<Feed>();
  #rehoming: Timer | undefined;
  #closed = false;

  constructor(options: ReaderPoolOptions) {
    this.#options = options;
    const { client } = options.main;
    if ('slots' in client) client.on('refresh', () => this.#rehome());
  }

  get readers(): readonly NodeReader[] {
    return [...this.#readers.values()];
  }

  add(feed: Feed): void {
    if (this.#closed) return;
    const reader = this.#readerOf(feed);
    if (reader) return reader.add(feed);
    this.#homeless.add(feed);
    this.#rehomeLater();
  }

  remove(feed: Feed): void {
    this.#homeless.delete(feed);
    for (const reader of this.#readers.values()) if (feed.reader === reader) reader.remove(feed);
  }

  async flushAcks(): Promise<void> {
    await Promise.all(this.readers.map(reader => reader.flushAcks()));
  }

  async barrier(): Promise<void> {
    await Promise.all(this.readers.map(reader => reader.barrier()));
  }

  close(): void {
    this.#closed = true;
    this.#rehoming?.cancel();
    for (const reader of this.#readers.values()) reader.close();
    this.#readers.clear();
  }

  #readerOf(feed: Feed): NodeReader | undefined {
    const node = nodeServing(this.#options.main.client, feed.key);
    return node && this.#reader(node);
  }

  #reader({ name, at }: ServingNode): NodeReader {
    const known = this.#readers.get(name);
    if (known) return known;
    const { connector, settings, commands, returned, clock, logger, main } = this.#options;
    const open = (role: ConnectionRole) =>
      at ? connector.openAt(at, role, connectionOptions) : (connector.open(role, connectionOptions) as Redis);
    const reader = new NodeReader({
      name: at ? name : 'reader-pool',
      open: () => ({ reader: open('reader'), bell: open('subscriber') }),
      cluster: 'slots' in main.client,
      settings,
      commands,
      returned,
      returnChannel: commands.returnChannel,
      clock,
      logger,
      moved: feed => this.#moved(feed),
    });
    this.#readers.set(name, reader);
    return reader;
  }

  #moved(feed: Feed): void {
    if (this.#closed) return;
    this.#homeless.add(feed);
    this.#rehomeLater();
  }

  #rehomeLater(): void {
    if (this.#rehoming || this.#closed) return;
    const { clock, main } = this.#options;
    main.start();
    if ('slots' in main.client && main.ready) main.client.refreshSlotsCache();
    this.#rehoming = clock.after(rehomeDelayMs, () => {
      this.#rehoming = undefined;
      this.#rehome();
      if (this.#homeless.size > 0) this.#rehomeLater();
    });
  }

  /** The map of slots is new: every stream goes to the node that has it now, and readers of nodes that left are closed. */
  #rehome(): void {
    if (this.#closed) return;
    const feeds = new Set([...this.#homeless, ...this.readers.flatMap(reader => reader.feeds())]);
    this.#homeless.clear();
    for (const feed of feeds) {
      const target = this.#readerOf(feed);
      if (!target) this.#homeless.add(feed);
      else if (feed.reader === target) target.ring(feed);
      else this.#move(feed, target);
    }
    for (const [key, reader] of this.#readers) {
      if (reader.feedCount > 0) continue;
      reader.close();
      this.#readers.delete(key);
    }
    if (this.#homeless.size > 0) this.#rehomeLater();
  }

  #move(feed: Feed, target: NodeReader): void {
    for (const reader of this.#readers.values()) if (feed.reader === reader) reader.remove(feed);
    target.take(feed);
  }
}
