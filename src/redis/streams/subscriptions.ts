/** Who listens to what in this process: opens feeds, joins and leaves them, and removes them once they are drained. */

import type { EventCallback, SubscribeOptions } from '../../contracts/pubsub.ts';
import { Batcher } from '../../core/batching.ts';
import { errorMessage } from '../../core/errors.ts';
import { loadScript, runScript } from '../script-runner.ts';
import { FanoutFeed } from './fanout-feed.ts';
import type { Feed, FeedContext, Member } from './feed.ts';
import type { GroupCommands } from './group-commands.ts';
import { GroupFeed } from './group-feed.ts';
import type { MainConnection } from './main-connection.ts';
import type { StreamPublisher } from './publisher.ts';
import type { ReaderPool } from './reader-pool.ts';
import { streamStart } from './stream-id.ts';

export interface SubscriptionsOptions {
  readonly context: FeedContext;
  readonly main: MainConnection;
  readonly commands: GroupCommands;
  readonly publisher: StreamPublisher;
  readonly pool: ReaderPool;
  /** Names this process among the consumers of its groups. */
  readonly consumer: string;
  readonly streamKey: (topic: string) => string;
}

export interface Subscription {
  readonly callback: EventCallback;
  readonly options: SubscribeOptions;
  /** Settles when the subscription is in place. */
  ready: Promise<void>;
  feed: Feed | undefined;
  ended: boolean;
}

export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #topics = new Map<string, Map<EventCallback, Subscription>>();
  readonly #groups = new Map<string, GroupFeed>();
  readonly #fanouts = new Map<string, FanoutFeed>();
  readonly #leaving = new Set<Promise<void>>();
  readonly #findPosition = loadScript('find-position');

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
  }

  *feeds(): Iterable<Feed> {
    yield* this.#groups.values();
    yield* this.#fanouts.values();
  }

  of(topic: string): readonly Subscription[] {
    return [...(this.#topics.get(topic)?.values() ?? [])];
  }

  feedsOf(topic: string): Feed[] {
    return [...this.feeds()].filter(feed => feed.topic === topic);
  }

  /** The same `(topic, callback)` twice is one subscription. */
  add(topic: string, callback: EventCallback, options: SubscribeOptions): Promise<void> {
    const callbacks = this.#topics.get(topic) ?? new Map<EventCallback, Subscription>();
    const known = callbacks.get(callback);
    if (known) return known.ready;
    // In place at once: a `localOnly` event that is published right after must find it.
    const subscription: Subscription = { callback, options, ready: Promise.resolve(), feed: undefined, ended: false };
    this.#topics.set(topic, callbacks.set(callback, subscription));
    subscription.ready = this.#open(topic, subscription).catch((error: unknown) => {
      this.#forget(topic, subscription);
      throw error;
    });
    return subscription.ready;
  }

  async remove(topic: string, callback: EventCallback): Promise<void> {
    const subscription = this.#topics.get(topic)?.get(callback);
    if (!subscription) return;
    this.#forget(topic, subscription);
    subscription.ended = true;
    if (subscription.feed) this.#leave(subscription.feed, callback);
    // One that is still being opened sees that it has ended, and takes back what it had done by then.
    else await subscription.ready.catch(() => {});
  }

  /** Everybody leaves. Resolves when all that was read is handed back or settled. */
  async removeAll(): Promise<void> {
    const all = [...this.#topics].flatMap(([topic, callbacks]) => [...callbacks.keys()].map(one => ({ topic, one })));
    await Promise.all(all.map(({ topic, one }) => this.remove(topic, one)));
    await this.#options.pool.barrier();
    while (this.#leaving.size > 0) await Promise.all(this.#leaving);
  }

  flushBatches(): void {
    for (const feed of this.feeds()) for (const member of feed.members) member.batcher?.flush();
  }

  #forget(topic: string, subscription: Subscription): void {
    const callbacks = this.#topics.get(topic);
    if (callbacks?.get(subscription.callback) !== subscription) return;
    callbacks.delete(subscription.callback);
    if (callbacks.size === 0) this.#topics.delete(topic);
  }

  async #open(topic: string, subscription: Subscription): Promise<void> {
    const { group } = subscription.options;
    if (group === undefined) await this.#openFanout(topic, subscription);
    else await this.#openGroup(topic, group, subscription);
  }

  async #openGroup(topic: string, group: string, subscription: Subscription): Promise<void> {
    const { context, commands, consumer, pool, streamKey } = this.#options;
    const name = `${group}\n${topic}`;
    const anchor = subscription.options.startFrom === 'latest' ? '$' : '0';
    const member = this.#member(subscription, streamStart);
    let feed = this.#groups.get(name);
    if (!feed || feed.members.length === 0) {
      feed ??= new GroupFeed(topic, streamKey(topic), group, consumer, anchor, context, commands);
      await commands.create(feed);
      // Another of this process may have been faster, or the last one may have left, while the server answered.
      feed = this.#groups.get(name) ?? feed;
    }
    if (subscription.ended) return;
    this.#groups.set(name, feed);
    const opened = feed;
    feed.onDrained = () => this.#drained(name, opened);
    subscription.feed = feed;
    feed.join(member);
    if (!feed.reader) pool.add(feed);
  }

  async #openFanout(topic: string, subscription: Subscription): Promise<void> {
    const { context, main, pool, publisher, streamKey } = this.#options;
    const key = streamKey(topic);
    const call = { script: this.#findPosition, keys: [key], args: [] };
    const reply = await main.run('find the end of the stream', client => runScript(client, call));
    const [lastId, added, held] = reply as [string, number, number];
    const latest = subscription.options.startFrom === 'latest';
    if (subscription.ended) return;
    const feed = this.#fanouts.get(topic) ?? new FanoutFeed(topic, key, context, publisher);
    this.#fanouts.set(topic, feed);
    subscription.feed = feed;
    feed.join(this.#member(subscription, latest ? lastId : streamStart), latest ? added : added - held);
    if (!feed.reader) pool.add(feed);
  }

  #member(subscription: Subscription, cursor: string): Member {
    const { callback, options } = subscription;
    const { clock, logger } = this.#options.context;
    const report = (problem: string, error?: unknown) =>
      logger.warn(problem, error === undefined ? {} : { error: errorMessage(error) });
    return { callback, batcher: options.batch && new Batcher(options.batch, clock, report), cursor };
  }

  #leave(feed: Feed, callback: EventCallback): void {
    const member = feed instanceof GroupFeed || feed instanceof FanoutFeed ? feed.leave(callback) : undefined;
    member?.batcher?.dispose();
    if (feed.members.length > 0) return;
    if (feed instanceof GroupFeed) return feed.rest();
    this.#fanouts.delete(feed.topic);
    this.#options.pool.remove(feed);
  }

  /** The consumer goes from its group unless it has entries pending; it is not there any more for siblings to look at. */
  #drained(name: string, feed: GroupFeed): void {
    if (this.#groups.get(name) !== feed) return;
    this.#groups.delete(name);
    this.#options.pool.remove(feed);
    const leaving = this.#options.commands
      .leave(feed)
      .catch((error: unknown) => {
        this.#options.context.logger.debug('a consumer could not be removed from its group', {
          topic: feed.topic,
          group: feed.group,
          error: errorMessage(error),
        });
      })
      .finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
  }
}
