/**
 * Takes over what dead consumers of our groups left pending, and nacks for handlers that are silent for too long. One
 * timer for all subscriptions, in small steps: ten thousand of them don't all ask at the same moment.
 */

import { jitterMs } from '../../core/backoff.ts';
import type { Clock, Timer } from '../../core/clock.ts';
import { errorMessage } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { RedisClient } from '../connection.ts';
import { loadScript, runScript } from '../script-runner.ts';
import { entriesOf } from './codec.ts';
import type { RawEntry } from './codec.ts';
import type { Feed } from './feed.ts';
import { isNoGroup } from '../failures.ts';
import { handedBackIdleMs } from './group-commands.ts';
import type { GroupCommands } from './group-commands.ts';
import { GroupFeed } from './group-feed.ts';
import type { MainConnection } from './main-connection.ts';
import type { StreamsSettings } from './options.ts';

const pageSize = 100;
const stepsPerInterval = 20;
const cleanupEveryRounds = 10;

type PendingRow = [id: string, consumer: string, idleMs: number, deliveries: number];

export class Reclaimer {
  readonly #connection: MainConnection;
  readonly #settings: StreamsSettings;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #commands: GroupCommands;
  readonly #feeds: () => Iterable<Feed>;
  readonly #findIdle = loadScript('find-idle');
  #round: GroupFeed[] = [];
  #perStep = 1;
  #rounds = 0;
  #reclaimTimer: Timer | undefined;
  #expiryTimer: Timer | undefined;
  #stopped = false;

  constructor(
    connection: MainConnection,
    settings: StreamsSettings,
    clock: Clock,
    logger: Logger,
    commands: GroupCommands,
    feeds: () => Iterable<Feed>,
  ) {
    this.#connection = connection;
    this.#settings = settings;
    this.#clock = clock;
    this.#logger = logger;
    this.#commands = commands;
    this.#feeds = feeds;
  }

  start(): void {
    const { reclaimIntervalMs, reclaimIdleMs, inFlightTimeoutMs } = this.#settings;
    if (reclaimIntervalMs > 0 && reclaimIdleMs > 0) this.#scheduleStep();
    if (inFlightTimeoutMs > 0) this.#scheduleExpiry();
  }

  stop(): void {
    this.#stopped = true;
    this.#reclaimTimer?.cancel();
    this.#expiryTimer?.cancel();
  }

  #scheduleExpiry(): void {
    if (this.#stopped) return;
    const everyMs = Math.max(5, Math.min(1000, this.#settings.inFlightTimeoutMs / 4));
    this.#expiryTimer = this.#clock.after(everyMs, () => {
      for (const feed of this.#feeds()) feed.expireInFlight();
      this.#scheduleExpiry();
    });
  }

  #scheduleStep(): void {
    if (this.#stopped) return;
    const everyMs = jitterMs(this.#settings.reclaimIntervalMs / stepsPerInterval);
    this.#reclaimTimer = this.#clock.after(everyMs, () => void this.#step().finally(() => this.#scheduleStep()));
  }

  async #step(): Promise<void> {
    if (this.#round.length === 0) {
      this.#rounds++;
      this.#round = [...this.#feeds()].filter(feed => feed instanceof GroupFeed);
      this.#perStep = Math.ceil(this.#round.length / stepsPerInterval);
    }
    const feeds = this.#round.splice(0, this.#perStep);
    if (!this.#connection.ready) return;
    for (let at = 0; at < feeds.length; at += pageSize) {
      const page = feeds.slice(at, at + pageSize);
      const candidates = await this.#candidates(page);
      await Promise.all(candidates.map(feed => this.#reclaim(feed, this.#settings.reclaimIdleMs)));
      if (this.#rounds % cleanupEveryRounds === 0) await Promise.all(page.map(feed => this.#removeIdle(feed)));
    }
  }

  /** Those worth a closer look. In a Cluster one command can't ask for several streams, so there it is all of them. */
  async #candidates(feeds: readonly GroupFeed[]): Promise<readonly GroupFeed[]> {
    if ('slots' in this.#connection.client) return feeds;
    const args = [this.#settings.reclaimIdleMs, ...feeds.map(feed => feed.group)];
    const call = { script: this.#findIdle, keys: feeds.map(feed => feed.key), args };
    try {
      const found = (await this.#run(client => runScript(client, call))) as number[];
      return found.map(position => feeds[position - 1]).filter(feed => feed !== undefined);
    } catch (error) {
      this.#logger.debug('idle entries could not be looked for', { error: errorMessage(error) });
      return [];
    }
  }

  /** Entries that a sibling handed back are claimed at once, whatever the settings say of abandoned ones. */
  returned(feed: GroupFeed): void {
    void this.#reclaim(feed, handedBackIdleMs / 2);
  }

  /** Claims and delivers what has been idle for long enough. Never rejects. */
  async #reclaim(feed: GroupFeed, idleMs: number): Promise<void> {
    try {
      if (!feed.wanted) return;
      const rows = await this.#idle(feed, idleMs);
      if (rows.length === 0 || this.#stopped) return;
      const claimed = await this.#claim(feed, idleMs, rows.map(([id]) => id));
      const counts = new Map(rows.map(([id, , , deliveries]) => [id, deliveries + 1]));
      if (claimed.length > 0) feed.accept(entriesOf(claimed), counts);
    } catch (error) {
      // The next round asks again; a stream that has gone has nothing to reclaim.
      if (isNoGroup(error)) return;
      this.#logger.debug('a reclaim failed', { topic: feed.topic, group: feed.group, error: errorMessage(error) });
    }
  }

  async #removeIdle(feed: GroupFeed): Promise<void> {
    try {
      await this.#commands.removeIdle(feed);
    } catch (error) {
      this.#logger.debug('idle consumers could not be removed', { topic: feed.topic, error: errorMessage(error) });
    }
  }

  /** Pending long enough and not in the hands of a handler here: a claim would restart the idle clock of those. */
  async #idle(feed: GroupFeed, idleMs: number): Promise<PendingRow[]> {
    const found: PendingRow[] = [];
    const here = feed.inFlight.ids();
    let from = '-';
    while (found.length < pageSize) {
      // The client's types know this command without IDLE only.
      const page = await this.#run(client =>
        client.call('XPENDING', feed.key, feed.group, 'IDLE', idleMs, from, '+', pageSize),
      );
      const rows = page as PendingRow[];
      found.push(...rows.filter(([id]) => !here.has(id)));
      if (rows.length < pageSize) break;
      from = `(${rows.at(-1)?.[0] ?? '-'}`;
    }
    return found.slice(0, pageSize);
  }

  async #claim(feed: GroupFeed, idleMs: number, ids: readonly string[]): Promise<RawEntry[]> {
    const args = [feed.key, feed.group, feed.consumer, idleMs, ...ids];
    return (await this.#run(client => client.call('XCLAIM', args))) as RawEntry[];
  }

  #run<T>(command: (client: RedisClient) => Promise<T>): Promise<T> {
    return command(this.#connection.client);
  }
}
