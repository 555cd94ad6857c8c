/**
 * Which threads have signals that wait, over all partitions. The index has the time at which somebody must look at each, by the
 * server's clock: now, or when its owner's lease would have ended.
 */

import { parseThreadName, partitionCount } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type { RedisClient } from './connection.ts';
import type { RedisKeys } from './keys.ts';
import type { Reply } from './mailbox-wire.ts';
import { loadScript } from './script-runner.ts';
import type { Script, ScriptArgument } from './script-runner.ts';

/** Threads of a partition that are looked at in one script: bounds its time. */
const siftedAtOnce = 256;

interface Indexed {
  readonly name: string;
  /** Milliseconds, by the server's clock. */
  readonly lookAtMs: number;
}

/** How the mailbox talks to Redis: with its retries, and with its errors. */
export interface IndexAccess {
  readonly client: RedisClient;
  readonly keys: RedisKeys;
  readonly command: <T>(what: string, command: () => Promise<T>) => Promise<T>;
  readonly run: (script: Script, keys: readonly string[], args: readonly ScriptArgument[]) => Promise<Reply>;
}

const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);

export class WaitingIndex {
  readonly #access: IndexAccess;
  readonly #sift = loadScript('sift-due');

  constructor(access: IndexAccess) {
    this.#access = access;
  }

  /**
   * Threads that somebody must take. Most that are due have a living owner, so they are looked at in bulk, and all of them: else
   * a dead owner's thread would have to wait behind them.
   */
  async due(limit: number): Promise<ThreadRef[]> {
    const { client, command } = this.#access;
    const time = await command('reading the time', () => client.time());
    const nowMs = Number(time[0]) * 1000 + Number(time[1]) / 1000;
    const due = await Promise.all(partitions.map(partition => this.#dueOf(partition, nowMs)));
    return threadsOf(due.flat(), limit);
  }

  /** Threads with waiting signals, those that somebody must look at first in front. */
  async waiting(limit: number): Promise<ThreadRef[]> {
    const { client, keys, command } = this.#access;
    const rows = await command('reading the indexes', () =>
      Promise.all(partitions.map(partition => client.zrange(keys.index(partition), 0, `${limit - 1}`, 'WITHSCORES'))),
    );
    return threadsOf(rows.flatMap(indexedIn), limit);
  }

  async #dueOf(partition: number, nowMs: number): Promise<Indexed[]> {
    const { client, keys, command, run } = this.#access;
    const index = keys.index(partition);
    const row = await command('reading an index', () =>
      client.zrange(index, '-inf', String(nowMs), 'BYSCORE', 'LIMIT', 0, siftedAtOnce, 'WITHSCORES'),
    );
    if (row.length === 0) return [];
    const due = indexedIn(row);
    const threadKeys = due.flatMap(({ name }) => {
      const { lease, state } = keys.thread(parseThreadName(name));
      return [lease, state];
    });
    const names = due.map(({ name }) => name);
    const reply = await run(this.#sift, [index, ...threadKeys], [keys.instanceChannelPrefix(partition), ...names]);
    const claimable = new Set(reply.texts(0).map(Number));
    return due.filter((_, at) => claimable.has(at + 1));
  }
}

/** Names and scores in turn, as Redis answers them. */
function indexedIn(row: readonly string[]): Indexed[] {
  return row.flatMap((name, at) => (at % 2 === 0 ? [{ name, lookAtMs: Number(row[at + 1]) }] : []));
}

function threadsOf(indexed: readonly Indexed[], limit: number): ThreadRef[] {
  return indexed.toSorted((a, b) => a.lookAtMs - b.lookAtMs).slice(0, limit).map(({ name }) => parseThreadName(name));
}
