/**
 * Events over Redis Streams and leases over Redis keys, in the wire format of the original backend.
 *
 * - `streams/publisher` appends, `streams/subscriptions` knows who listens
 * - `streams/reader-pool` reads, one `node-reader` per Redis node, told by its `doorbell`
 * - `streams/group-feed` and `fanout-feed` deliver and settle, `reclaimer` recovers what dead consumers left
 *
 * Connections per Redis node, at any number of topics: publishing, reading, the doorbell, and one for leases once they
 * are used.
 */

import { randomUUID } from 'node:crypto';

import type { BatchLeaseProvider, HeldKey, LeaseAcquisition } from '../contracts/lease-provider.ts';
import type {
  ClosablePubSub,
  Event,
  EventCallback,
  NewEvent,
  PublishOptions,
  PubSubDeliveryMode,
  SubscribeOptions,
} from '../contracts/pubsub.ts';
import { checkBatchPolicy } from '../core/batching.ts';
import { systemClock } from '../core/clock.ts';
import { errorMessage, invalidOption, SignalsError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { settledWithin } from '../core/waits.ts';
import { RedisConnector } from './connection.ts';
import { RedisKeys } from './keys.ts';
import { loadScript } from './script-runner.ts';
import { entryFields, stampedEvent } from './streams/codec.ts';
import { FanoutFeed } from './streams/fanout-feed.ts';
import { GroupCommands } from './streams/group-commands.ts';
import { GroupFeed } from './streams/group-feed.ts';
import { LazyLeases } from './streams/lazy-leases.ts';
import { deliverLocally } from './streams/local-delivery.ts';
import { MainConnection } from './streams/main-connection.ts';
import { adaptedLogger, checkedSettings } from './streams/options.ts';
import type { RedisStreamsPubSubOptions, StreamsSettings } from './streams/options.ts';
import { StreamPublisher } from './streams/publisher.ts';
import { ReaderPool } from './streams/reader-pool.ts';
import { Reclaimer } from './streams/reclaimer.ts';
import { historyOf, removeRun, trimStream } from './streams/retention.ts';
import type { RunTrim } from './streams/retention.ts';
import { Subscriptions } from './streams/subscriptions.ts';
import { StreamTelemetry } from './streams/telemetry.ts';

export type { RedisStreamsPubSubOptions } from './streams/options.ts';

export class RedisStreamsPubSub implements ClosablePubSub, BatchLeaseProvider {
  readonly supportedModes: readonly PubSubDeliveryMode[] = ['pull'];
  readonly supportsNativeBatching = true;
  /** Streams are trimmed at their old end, so that a count from the start names no fixed event. */
  readonly supportsOffsets = false;

  readonly #settings: StreamsSettings;
  readonly #keys: RedisKeys;
  readonly #logger: Logger;
  readonly #main: MainConnection;
  readonly #publisher: StreamPublisher;
  readonly #pool: ReaderPool;
  readonly #subscriptions: Subscriptions;
  readonly #reclaimer: Reclaimer;
  readonly #telemetry: StreamTelemetry;
  readonly #leases: LazyLeases;
  #closing: Promise<void> | undefined;

  /** Connects when first used. Throws `SIG_OPTION_INVALID`, naming the option, its value and what is allowed. */
  constructor(options: RedisStreamsPubSubOptions = {}) {
    const settings = checkedSettings(options);
    const logger = adaptedLogger(options.logger);
    const connector = new RedisConnector(options, { logger, commandTimeoutMs: settings.commandTimeoutMs });
    const clock = systemClock;
    this.#settings = settings;
    this.#logger = logger;
    this.#keys = new RedisKeys(settings.keyPrefix);
    this.#main = new MainConnection(connector, clock, settings.commandTimeoutMs);
    this.#publisher = new StreamPublisher(this.#main, settings, clock, loadScript('publish-event'));
    const commands = new GroupCommands(this.#main, settings, this.#keys.returnChannel());
    this.#pool = new ReaderPool({
      connector,
      main: this.#main,
      settings,
      commands,
      returned: feed => this.#reclaimer.returned(feed),
      clock,
      logger,
    });
    this.#telemetry = new StreamTelemetry(() => this.#pool.readers.map(({ name, silenceS }) => ({ node: name, ageS: silenceS })));
    this.#subscriptions = new Subscriptions({
      context: { settings, logger, telemetry: this.#telemetry, clock },
      main: this.#main,
      commands,
      publisher: this.#publisher,
      pool: this.#pool,
      consumer: `signals-${randomUUID()}`,
      streamKey: topic => this.#keys.stream(topic),
    });
    this.#reclaimer = new Reclaimer(this.#main, settings, clock, logger, commands, () =>
      this.#subscriptions.feeds(),
    );
    this.#reclaimer.start();
    this.#leases = new LazyLeases(connector, this.#keys, clock, settings.commandTimeoutMs, logger);
  }

  /** Errors: `SIG_STORE_UNAVAILABLE` when the event was not stored within `commandTimeoutMs`. */
  async publish(topic: string, event: NewEvent, options: PublishOptions = {}): Promise<void> {
    this.#mustBeOpen();
    const stamped = stampedEvent(event);
    if (options.localOnly) return deliverLocally(this.#subscriptions.of(topic), stamped, this.#logger);
    const json = JSON.stringify(stamped);
    await this.#telemetry.publish(topic, stamped, trace =>
      this.#publisher.append(this.#keys.stream(topic), entryFields(json, trace)),
    );
  }

  /** Errors: `SIG_OPTION_INVALID`, and `SIG_STORE_UNAVAILABLE` when Redis gives no answer within `commandTimeoutMs`. */
  async subscribe(topic: string, callback: EventCallback, options: SubscribeOptions = {}): Promise<void> {
    this.#mustBeOpen();
    checkSubscription(options);
    await this.#subscriptions.add(topic, callback, options);
  }

  async unsubscribe(topic: string, callback: EventCallback): Promise<void> {
    await this.#subscriptions.remove(topic, callback);
  }

  async flush(): Promise<void> {
    this.#subscriptions.flushBatches();
    await this.#publisher.flush();
    await this.#pool.flushAcks();
  }

  async clearTopic(topic: string): Promise<void> {
    if (this.#closing) return;
    const feeds = this.#subscriptions.feedsOf(topic);
    const positions = new Map(feeds.map(feed => [feed, feed instanceof FanoutFeed ? feed.position : undefined]));
    try {
      await this.#main.run('clear the topic', client => client.del(this.#keys.stream(topic)));
    } catch (error) {
      this.#logger.warn('a topic could not be cleared', { topic, error: errorMessage(error) });
      return;
    }
    for (const feed of feeds) {
      if (feed instanceof GroupFeed) feed.restart();
      // What was read in the meantime is of the new stream already.
      else if (feed instanceof FanoutFeed && feed.position === positions.get(feed)) feed.restart();
    }
  }

  /** What the stream still holds, oldest first, from the `offset`th on. */
  async getHistory(topic: string, offset = 0): Promise<Event[]> {
    this.#mustBeOpen();
    return (await historyOf(this.#main, this.#keys.stream(topic))).slice(offset);
  }

  async subscribeWithReplay(topic: string, callback: EventCallback): Promise<void> {
    await this.subscribe(topic, callback);
  }

  /** Offsets are not supported: everything is replayed. */
  async subscribeFromOffset(topic: string, offset: number, callback: EventCallback): Promise<void> {
    if (offset !== 0) this.#logger.warn('numeric offsets are not supported; the whole topic is replayed', { topic, offset });
    await this.subscribeWithReplay(topic, callback);
  }

  /** With a number: keeps the newest `keep` events. With a run: removes the events of that run. Answers how many went. */
  async trimTopic(topic: string, what: number | RunTrim): Promise<number> {
    this.#mustBeOpen();
    const key = this.#keys.stream(topic);
    if (typeof what === 'number') return trimStream(this.#main, key, what);
    return removeRun(this.#main, key, what);
  }

  acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    return this.#leases.use(leases => leases.acquireLease(key, owner, ttlMs));
  }

  getLeaseOwner(key: string): Promise<string | undefined> {
    return this.#leases.use(leases => leases.getLeaseOwner(key));
  }

  releaseLease(key: string, owner: string): Promise<void> {
    return this.#leases.use(leases => leases.releaseLease(key, owner));
  }

  renewLease(key: string, owner: string, ttlMs: number): Promise<boolean> {
    return this.#leases.use(leases => leases.renewLease(key, owner, ttlMs));
  }

  transferLease(key: string, fromOwner: string, toOwner: string, ttlMs: number): Promise<boolean> {
    return this.#leases.use(leases => leases.transferLease(key, fromOwner, toOwner, ttlMs));
  }

  renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<(boolean | Error)[]> {
    return this.#leases.use(provider => provider.renewLeases(leases, ttlMs));
  }

  /** Hands back what was read, sends what was published and acked, and disconnects; within `closeTimeoutMs`. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#reclaimer.stop();
    const orderly = async () => {
      await Promise.all([this.#publisher.flush(), this.#subscriptions.removeAll()]);
      await this.#pool.flushAcks();
    };
    const inTime = await settledWithin(systemClock, this.#settings.closeTimeoutMs, orderly());
    if (!inTime) {
      this.#logger.warn('closed before everything was settled; what is pending is redelivered to others', {
        closeTimeoutMs: this.#settings.closeTimeoutMs,
      });
    }
    this.#publisher.close();
    this.#pool.close();
    this.#main.close();
    this.#leases.close();
    this.#telemetry.close();
    for (const feed of this.#subscriptions.feeds()) if (feed instanceof GroupFeed) feed.abandonAcks();
  }

  #mustBeOpen(): void {
    if (this.#closing) throw new SignalsError('SIG_STORE_UNAVAILABLE', 'this PubSub is closed');
  }
}

function checkSubscription({ group, startFrom, batch }: SubscribeOptions): void {
  if (group !== undefined && (typeof group !== 'string' || group === '')) {
    throw invalidOption('group', group, 'a string that is not empty');
  }
  if (startFrom !== undefined && startFrom !== 'earliest' && startFrom !== 'latest') {
    throw invalidOption('startFrom', startFrom, '`earliest` or `latest`');
  }
  if (batch !== undefined) checkBatchPolicy(batch);
}
