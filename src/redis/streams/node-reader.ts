/**
 * Reads all feeds of one Redis node over one connection, however many they are. A doorbell says which streams have
 * news; they are read without blocking, many in one command, and what handlers acked goes out ahead of the next read on
 * the same connection.
 *
 * Where the server refuses tracking, the streams are looked at in turns instead: later, but with no more connections.
 */

import type { Redis } from 'ioredis';

import { backoffMs } from '../../core/backoff.ts';
import type { Clock, Timer } from '../../core/clock.ts';
import { errorMessage } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { AnswerWatch } from '../answer-watch.ts';
import { isMoved, isRefused } from '../failures.ts';
import { loadScript, runScript } from '../script-runner.ts';
import { AckSender } from './ack-sender.ts';
import type { RawEntry } from './codec.ts';
import { entriesOf } from './codec.ts';
import { Doorbell } from './doorbell.ts';
import { GapCheck } from './gap-check.ts';
import { FailedReads } from './failed-reads.ts';
import { FanoutFeed } from './fanout-feed.ts';
import type { Feed } from './feed.ts';
import { GroupFeed } from './group-feed.ts';
import type { GroupReader } from './group-feed.ts';
import type { GroupCommands } from './group-commands.ts';
import type { StreamsSettings } from './options.ts';
import { ReadQueue } from './read-queue.ts';
import type { Batch } from './read-queue.ts';
import { ServedFeeds } from './served-feeds.ts';

export interface NodeReaderOptions {
  readonly name: string;
  readonly open: () => { reader: Redis; bell: Redis };
  /** In a Cluster one command may only touch one slot. */
  readonly cluster: boolean;
  readonly settings: StreamsSettings;
  readonly commands: GroupCommands;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Entries of this group were handed back and can be claimed. */
  readonly returned: (feed: GroupFeed) => void;
  /** Channel on which that is told. */
  readonly returnChannel: string;
  /** A stream is not served by this node any more. */
  readonly moved: (feed: Feed) => void;
}

/** Reads under way at the same time: one being answered, one being handled, one on the wire. */
const maxReads = 3;
/** Every feed is looked at once in this time, should a ring ever be lost. */
const sweepMs = 60_000;
const silenceLimit = 5;
/** Full reads in a row that mean a backlog which trimming may overtake. */
const farBehind = 3;
/** Polling tells nothing of what changed: one look in so many asks whether a stream was replaced. */
const restartCheckShare = 1 / 16;

type Phase = 'connecting' | 'tracking' | 'polling' | 'closed';

export class NodeReader implements GroupReader {
  readonly name: string;
  readonly #options: NodeReaderOptions;
  readonly #clock: Clock;
  readonly #reader: Redis;
  readonly #bell: Doorbell;
  readonly #acks: AckSender;
  readonly #queue: ReadQueue;
  readonly #gaps: GapCheck;
  readonly #watch: AnswerWatch;
  readonly #failedReads: FailedReads;
  readonly #findPosition = loadScript('find-position');
  readonly #feeds = new ServedFeeds();
  #phase: Phase = 'connecting';
  /** Grows with each connection: what an older one still answers is not ours to judge. */
  #epoch = 0;
  #reads = 0;
  #scheduled = false;
  #attempts = 0;
  #timers = new Set<Timer>();
  #ticker: Timer | undefined;

  constructor(options: NodeReaderOptions) {
    this.#options = options;
    this.name = options.name;
    this.#clock = options.clock;
    this.#watch = new AnswerWatch(options.clock);
    const { reader, bell } = options.open();
    this.#reader = reader;
    this.#bell = new Doorbell(bell, options.returnChannel, {
      rung: key => this.#rung(key),
      returned: (key, group) => this.#returned(key, group),
      lost: () => this.#lost(),
    });
    this.#acks = new AckSender(reader, options.cluster, feed => options.moved(feed));
    this.#queue = new ReadQueue(options.cluster);
    this.#gaps = new GapCheck(reader);
    this.#failedReads = new FailedReads({
      ...options,
      ring: feed => this.ring(feed),
      later: (delayMs, action) => this.#later(delayMs, action),
      isRung: () => this.#phase === 'tracking',
    });
    reader.on('close', () => this.#lost());
    reader.on('ready', () => void this.#attach());
    bell.on('ready', () => void this.#attach());
    reader.connect().catch(() => {});
    bell.connect().catch(() => {});
    this.#tick();
  }

  get feedCount(): number {
    return this.#feeds.count;
  }

  /** Seconds since the server last answered. */
  get silenceS(): number {
    return this.#watch.silenceMs / 1000;
  }

  add(feed: Feed): void {
    this.#feeds.add(feed);
    feed.reader = this;
    this.ring(feed);
    if (feed instanceof GroupFeed && feed.acksLeft) this.acksWaiting(feed);
  }

  /** A feed of another reader, which may still wait for that one's answer. */
  take(feed: Feed): void {
    if (feed.schedule.state === 'reading' && feed instanceof GroupFeed) feed.recoverAfter ??= '0';
    feed.schedule.state = 'idle';
    this.add(feed);
  }

  remove(feed: Feed): void {
    this.#feeds.remove(feed);
    if (feed.reader === this) feed.reader = undefined;
  }

  feeds(): Feed[] {
    return this.#feeds.all();
  }

  ring(feed: Feed): void {
    const { schedule } = feed;
    if (schedule.state === 'reading') schedule.rung = true;
    if (schedule.state !== 'idle') return;
    if (feed.reader !== this) return;
    if (!feed.wanted) {
      // By the time it is read again, it may have fallen behind.
      schedule.checkGap = true;
      return;
    }
    schedule.state = 'queued';
    this.#queue.push(feed);
    this.#schedule();
  }

  acksWaiting(feed: GroupFeed): void {
    this.#acks.add(feed);
    this.#schedule();
  }

  /** Resolves when all acks so far are confirmed, or can't be. */
  async flushAcks(): Promise<void> {
    while (this.#up && this.#acks.waiting) await this.#acks.send();
  }

  /** Resolves when all reads so far were answered, or can't be. */
  async barrier(): Promise<void> {
    // Replies come in order; a connection that fails has nothing more to say.
    if (this.#up) await this.#reader.ping().catch(() => {});
  }

  close(): void {
    this.#phase = 'closed';
    for (const timer of this.#timers) timer.cancel();
    this.#ticker?.cancel();
    this.#reader.disconnect();
    this.#bell.connection.disconnect();
  }

  get #up(): boolean {
    return this.#phase === 'tracking' || this.#phase === 'polling';
  }

  #rung(key: string | undefined): void {
    for (const feed of key === undefined ? this.#feeds.all() : this.#feeds.of(key)) {
      feed.schedule.news = true;
      this.ring(feed);
    }
  }

  #returned(key: string, group: string): void {
    for (const feed of this.#feeds.of(key)) {
      if (feed instanceof GroupFeed && feed.group === group) this.#options.returned(feed);
    }
  }

  #lost(): void {
    if (this.#phase === 'closed') return;
    this.#phase = 'connecting';
    this.#epoch++;
  }

  /** Both connections are up: the bell is tied to the reader, and everything is read, since rings may have been missed. */
  async #attach(): Promise<void> {
    if (this.#phase === 'closed') return;
    if (this.#reader.status !== 'ready' || this.#bell.connection.status !== 'ready') return;
    const epoch = ++this.#epoch;
    let phase: Phase = 'tracking';
    try {
      await this.#bell.attach(this.#reader);
    } catch (error) {
      if (epoch !== this.#epoch) return;
      if (!isRefused(error)) return this.#attachLater(error);
      phase = 'polling';
      this.#options.logger.warn('the server refuses CLIENT TRACKING; streams are polled', {
        node: this.name,
        everyMs: this.#options.settings.blockMs,
        error: errorMessage(error),
      });
    }
    if (epoch !== this.#epoch) return;
    this.#phase = phase;
    this.#attempts = 0;
    this.#watch.answered();
    this.#reads = 0;
    for (const feed of this.#feeds.all()) {
      feed.schedule.checkGap = true;
      feed.schedule.news = true;
      if (feed.schedule.state === 'reading') {
        feed.schedule.state = 'idle';
        if (feed instanceof GroupFeed) feed.recoverAfter ??= '0';
      }
      this.ring(feed);
    }
    if (phase === 'polling') this.#poll(epoch);
    this.#schedule();
  }

  #attachLater(error: unknown): void {
    this.#options.logger.debug('a reader could not be set up yet', { node: this.name, error: errorMessage(error) });
    this.#later(backoffMs(++this.#attempts, 50, 2000), () => void this.#attach());
  }

  #poll(epoch: number): void {
    this.#later(this.#options.settings.blockMs, () => {
      if (epoch !== this.#epoch || this.#phase !== 'polling') return;
      this.#rung(undefined);
      this.#poll(epoch);
    });
  }

  #schedule(): void {
    if (this.#scheduled || !this.#up) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (!this.#up) return;
    // Acks, checks and reads of one turn leave in one write.
    const { stream } = this.#reader;
    stream.cork();
    this.#sendAcks();
    this.#sendReads();
    stream.uncork();
  }

  #sendAcks(): void {
    if (this.#acks.waiting) {
      this.#watch.asked();
      void this.#acks.send().then(answered => {
        if (answered) this.#watch.answered();
        if (this.#acks.waiting) this.#schedule();
      });
    }
  }

  #sendReads(): void {
    while (this.#reads < maxReads) {
      const batch = this.#queue.take();
      if (!batch) return;
      void this.#read(batch, this.#epoch);
    }
  }

  async #read(batch: Batch, epoch: number): Promise<void> {
    this.#reads++;
    this.#watch.asked();
    for (const feed of batch.feeds) {
      feed.schedule.state = 'reading';
      feed.schedule.rung = false;
      // A failure is the read's to report: it comes right behind on the same connection.
      if (feed.schedule.checkGap || feed.schedule.fullReads >= farBehind) this.#gaps.measure(feed).catch(() => {});
      feed.schedule.checkGap = false;
    }
    let reply: Map<string, RawEntry[]> | undefined;
    let failure: unknown;
    try {
      reply = await batch.send(this.#reader, this.#phase === 'tracking');
    } catch (error) {
      failure = error;
    }
    // The connection went: whoever came after it has put these feeds back to be read.
    if (epoch !== this.#epoch) return this.#stale(batch, reply);
    this.#reads--;
    this.#watch.answered();
    if (reply) this.#deliver(batch, reply);
    else this.#failedReads.add(batch.feeds, failure);
    this.#schedule();
  }

  #stale(batch: Batch, reply: Map<string, RawEntry[]> | undefined): void {
    if (!reply) return;
    for (const feed of batch.feeds) feed.accept(entriesOf(reply.get(feed.key) ?? []));
  }

  #deliver(batch: Batch, reply: Map<string, RawEntry[]>): void {
    const read = batch.feeds.map(feed => ({ feed, raw: reply.get(feed.key) ?? [], again: feed.schedule.rung }));
    for (const { feed, raw } of read) {
      const { schedule } = feed;
      schedule.state = 'idle';
      schedule.failures = 0;
      schedule.alone = false;
      schedule.fullReads = raw.length >= batch.count ? schedule.fullReads + 1 : 0;
      this.#queue.learn(raw);
    }
    // The server gets the next part ready while handlers are given this one.
    const ahead = batch.history ? [] : read.filter(({ feed }) => feed.schedule.fullReads > 0);
    for (const { feed, raw } of ahead) {
      if (feed instanceof FanoutFeed) feed.readAhead(raw.at(-1)?.[0]);
      this.ring(feed);
    }
    if (ahead.length > 0) this.#pump();
    for (const { feed, raw, again } of read) this.#accept(feed, raw, again || batch.history, batch.history);
  }

  #accept(feed: Feed, raw: readonly RawEntry[], again: boolean, history: boolean): void {
    if (history && feed instanceof GroupFeed) feed.recoverAfter = raw.at(-1)?.[0];
    if (raw.length > 0) feed.accept(entriesOf(raw));
    if (feed.members.length === 0) feed.rest();
    else if (again || feed.schedule.fullReads > 0) this.ring(feed);
    else if (raw.length === 0 && feed.schedule.news && feed instanceof FanoutFeed) void this.#checkRestart(feed);
    feed.schedule.news = false;
  }

  /** There was news of the stream and nothing after our position: is it the one that we have read so far? */
  async #checkRestart(feed: FanoutFeed): Promise<void> {
    if (!feed.mayRestart || (this.#phase === 'polling' && Math.random() > restartCheckShare)) return;
    try {
      const call = { script: this.#findPosition, keys: [feed.key], args: [] };
      const [lastId] = (await runScript(this.#reader, call)) as [string];
      if (feed.restartedAs(lastId)) this.ring(feed);
    } catch (error) {
      // The next ring asks again; a stream that has moved is followed.
      if (isMoved(error)) this.#options.moved(feed);
    }
  }

  #tick(): void {
    const { blockMs } = this.#options.settings;
    this.#ticker = this.#clock.after(blockMs, () => {
      if (this.#up) this.#checkAnswers(blockMs * silenceLimit);
      if (this.#phase === 'tracking') for (const feed of this.#feeds.next(blockMs / sweepMs)) this.ring(feed);
      this.#tick();
    });
  }

  #checkAnswers(limitMs: number): void {
    this.#watch.check({
      limitMs,
      quietMs: limitMs / 2,
      // Nothing was read for a while: is there still somebody who would ring?
      ask: () => Promise.all([this.#reader.ping(), this.#bell.connection.ping()]),
      giveUp: () => {
        this.#options.logger.warn('a reader gave no answer in time; it is connected again', { node: this.name, limitMs });
        this.#reader.disconnect(true);
        this.#bell.connection.disconnect(true);
      },
    });
  }

  #later(delayMs: number, action: () => void): void {
    const timer = this.#clock.after(delayMs, () => {
      this.#timers.delete(timer);
      action();
    });
    this.#timers.add(timer);
  }
}
