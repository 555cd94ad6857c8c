/**
 * Every key and channel of this project, in one place.
 *
 * `<prefix>:<topic>` and `<prefix>:lease:<key>` are the original backend's and stay byte-compatible with it. The rest is
 * ours. All keys that one script touches share a hash tag: a thread's is its partition, `{p17}`.
 */

import { partitionOf, threadLeaseKey, threadName } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';

export const defaultKeyPrefix = 'mastra:topic';

export interface LeaseKeys {
  /** String: the owner, nothing else. Expires with the lease. */
  readonly lease: string;
  /** String: the fencing token of the lease that is held now. Deleted with it; may outlive one that expires by minutes. */
  readonly token: string;
  /** String: the last token given out in this slot. Outlives the leases by days. */
  readonly fence: string;
}

export interface ThreadKeys extends LeaseKeys {
  /** Stream: signals not yet consumed. */
  readonly inbox: string;
  /** Hash: counters and marks of the thread; see `scripts/deliver-signal.lua`. */
  readonly state: string;
  /** Stream: what the thread's runs put out. */
  readonly out: string;
  /** Stream: signals given to runs more often than allowed. */
  readonly dead: string;
  /** Sorted set of the partition: thread name by the time (ms) at which somebody must look at it. */
  readonly index: string;
  /** Hash of the partition: the runs that are on, by id, and the names of their threads. */
  readonly runs: string;
  /** Sorted set of the partition: names of threads with dead letters, by the time (ms) of the newest. */
  readonly deadIndex: string;
}

export class RedisKeys {
  readonly prefix: string;

  constructor(prefix: string = defaultKeyPrefix) {
    this.prefix = prefix;
  }

  stream(topic: string): string {
    return `${this.prefix}:${topic}`;
  }

  /** Channel on which members of a consumer group hear that entries were handed back. */
  returnChannel(): string {
    return `${this.prefix}:returned`;
  }

  lease(key: string): LeaseKeys {
    const lease = `${this.prefix}:lease:${key}`;
    const tag = hashTag(lease);
    return { lease, token: `${this.prefix}:token:{${tag}}:${key}`, fence: `${this.prefix}:fence:{${tag}}` };
  }

  thread(thread: ThreadRef): ThreadKeys {
    const key = threadLeaseKey(thread);
    return {
      ...this.lease(key),
      inbox: `${this.prefix}:inbox:${key}`,
      state: `${this.prefix}:state:${key}`,
      out: `${this.prefix}:out:${key}`,
      dead: `${this.prefix}:dead:${key}`,
      index: this.index(partitionOf(thread)),
      runs: this.runs(partitionOf(thread)),
      deadIndex: this.deadIndex(partitionOf(thread)),
    };
  }

  /** String: what became of a signal id and whose run it was for, kept for the dedupe window. */
  seen(thread: ThreadRef, signalId: string): string {
    return `${this.prefix}:seen:${threadLeaseKey(thread)}:${encodeURIComponent(signalId)}`;
  }

  index(partition: number): string {
    return `${this.prefix}:waiting:{p${partition}}`;
  }

  runs(partition: number): string {
    return `${this.prefix}:runs:{p${partition}}`;
  }

  deadIndex(partition: number): string {
    return `${this.prefix}:graves:{p${partition}}`;
  }

  /** String: the number of partitions that this data was written with. */
  partitions(): string {
    return `${this.prefix}:partitions`;
  }

  /** Channel on which an instance hears about its threads of a partition. */
  instanceChannel(partition: number, instanceId: string): string {
    return `${this.instanceChannelPrefix(partition)}${instanceId}`;
  }

  instanceChannelPrefix(partition: number): string {
    return `${this.prefix}:bell:{p${partition}}:`;
  }

  /** Channel on which every instance hears of threads without an owner. */
  orphanChannel(partition: number): string {
    return `${this.prefix}:orphans:{p${partition}}`;
  }

  /** Channel that says that a thread's output grew. */
  outputChannel(thread: ThreadRef): string {
    return `${this.prefix}:grew:{p${partitionOf(thread)}}:${threadName(thread)}`;
  }
}

/** What Redis Cluster hashes of a key: between the first `{` and the next `}` if that is not empty, else everything. */
export function hashTag(key: string): string {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}
