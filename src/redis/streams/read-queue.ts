/**
 * Feeds that have something to read, gathered into few commands: those of one consumer group, and those of fan-out, go
 * into one command each as long as they may (in a Cluster, of one slot). Turns go round, so that a busy topic doesn't
 * hold up the others.
 */

import type { Redis } from 'ioredis';

import { hashTag } from '../keys.ts';
import type { RawEntry } from './codec.ts';
import type { FanoutFeed } from './fanout-feed.ts';
import type { Feed } from './feed.ts';
import { GroupFeed } from './group-feed.ts';

export interface Batch {
  readonly feeds: readonly Feed[];
  /** Most entries per stream. */
  readonly count: number;
  /** Reads what a lost connection had been given, not what is new. */
  readonly history: boolean;
  send(reader: Redis, arm: boolean): Promise<Map<string, RawEntry[]>>;
}

const maxStreams = 128;
const minCount = 16;
const maxCount = 512;
/** Entries, and bytes, that one reply may hold. */
const maxEntries = 4096;
const maxReplyBytes = 8 * 1024 * 1024;

export class ReadQueue {
  readonly #cluster: boolean;
  /** By what may go into one command; the order of the map is whose turn it is. */
  readonly #buckets = new Map<string, Feed[]>();
  #entryBytes = 512;

  constructor(cluster: boolean) {
    this.#cluster = cluster;
  }

  push(feed: Feed): void {
    const name = this.#bucketOf(feed);
    const bucket = this.#buckets.get(name);
    if (bucket) bucket.push(feed);
    else this.#buckets.set(name, [feed]);
  }

  take(): Batch | undefined {
    for (const [name, bucket] of this.#buckets) {
      this.#buckets.delete(name);
      const feeds = bucket.splice(0, maxStreams).filter(stillWanted);
      if (bucket.length > 0) this.#buckets.set(name, bucket);
      if (feeds.length > 0) return this.#batch(feeds);
    }
    return undefined;
  }

  /** Keeps an eye on how large entries are, so that a reply stays within its bytes. */
  learn(raw: readonly RawEntry[]): void {
    for (const entry of raw.slice(0, 4)) {
      const bytes = entry?.[1]?.reduce((sum, field) => sum + field.length, 0) ?? 0;
      this.#entryBytes += (bytes - this.#entryBytes) / (bytes > this.#entryBytes ? 2 : 32);
    }
  }

  #bucketOf(feed: Feed): string {
    if (feed.schedule.alone || (feed instanceof GroupFeed && feed.recoverAfter !== undefined)) {
      return `alone ${feed.group ?? ''} ${feed.key}`;
    }
    const kind = feed.group === undefined ? 'fanout' : `group ${feed.group}`;
    return this.#cluster ? `${kind} ${hashTag(feed.key)}` : kind;
  }

  #batch(feeds: Feed[]): Batch {
    const share = Math.min(maxEntries, maxReplyBytes / Math.max(1, this.#entryBytes)) / feeds.length;
    const count = Math.max(feeds.length > 1 ? 1 : minCount / 4, Math.min(maxCount, Math.floor(share)));
    const [first] = feeds;
    if (first instanceof GroupFeed) {
      const after = first.recoverAfter;
      const send = (reader: Redis, arm: boolean) => readGroup(reader, feeds as GroupFeed[], count, after ?? '>', arm);
      return { feeds, count, history: after !== undefined, send };
    }
    return { feeds, count, history: false, send: reader => readFanout(reader, feeds as FanoutFeed[], count) };
  }
}

/** Between ringing and reading its last member may have left. */
function stillWanted(feed: Feed): boolean {
  if (feed.wanted) return true;
  feed.schedule.state = 'idle';
  feed.rest();
  return false;
}

type Reply = [key: string, entries: RawEntry[]][] | null;

async function readGroup(
  reader: Redis,
  feeds: readonly GroupFeed[],
  count: number,
  from: string,
  arm: boolean,
): Promise<Map<string, RawEntry[]>> {
  const [first] = feeds;
  if (!first) return new Map();
  const keys = feeds.map(feed => feed.key);
  const ids = feeds.map(() => from);
  const pipeline = reader.pipeline();
  // Only reading commands arm a stream, and XREADGROUP counts as a writing one. Armed first: what is written in between
  // is read and rings once more, for nothing; the other way round it would be missed.
  if (arm) pipeline.exists(keys);
  pipeline.xreadgroup('GROUP', first.group, first.consumer, 'COUNT', count, 'STREAMS', ...keys, ...ids);
  const replies = (await pipeline.exec()) ?? [];
  const [error, reply] = replies[arm ? 1 : 0] ?? [new Error('the pipeline gave no reply'), null];
  if (error) throw error;
  return new Map(reply as Reply);
}

async function readFanout(reader: Redis, feeds: readonly FanoutFeed[], count: number): Promise<Map<string, RawEntry[]>> {
  const keys = feeds.map(feed => feed.key);
  const ids = feeds.map(feed => feed.position);
  // A plain read arms the stream by itself.
  return new Map((await reader.xread('COUNT', count, 'STREAMS', ...keys, ...ids)) as Reply);
}

