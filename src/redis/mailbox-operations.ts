/** Cancelling, dead letters and the search for a run, on Redis. */

import type { DeadLetter, MailboxOperations, Unattended } from '../contracts/mailbox-operations.ts';
import { decodeEnvelope } from '../contracts/stored-envelope.ts';
import { parseThreadName, partitionCount, partitionOf, partitionOfRun, threadName } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import { systemClock } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';
import { storeError } from './connection.ts';
import type { RedisClient } from './connection.ts';
import type { RedisKeys } from './keys.ts';
import { replyOf } from './mailbox-wire.ts';
import type { Reply } from './mailbox-wire.ts';
import { repeatable } from './repeatable.ts';
import { loadScript, runScript } from './script-runner.ts';
import type { ScriptCall } from './script-runner.ts';

const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);

export class RedisMailboxOperations implements MailboxOperations {
  readonly #client: RedisClient;
  readonly #keys: RedisKeys;
  readonly #clock: Clock;
  readonly #cancel = loadScript('cancel-signals');
  readonly #replay = loadScript('replay-dead-letters');

  /** The client, of role `commands`, stays the caller's. */
  constructor(client: RedisClient, keys: RedisKeys, clock: Clock = systemClock) {
    this.#client = client;
    this.#keys = keys;
    this.#clock = clock;
  }

  /** By the server's clock, as the index is. */
  async unattended(): Promise<Unattended> {
    return await this.#ask('counting threads without an owner', async () => {
      const [seconds, micros] = await this.#client.time();
      const nowMs = Number(seconds) * 1000 + Number(micros) / 1000;
      const rows = await Promise.all(
        partitions.map(async partition => {
          const index = this.#keys.index(partition);
          const count = this.#client.zcount(index, '-inf', nowMs);
          const [, since] = await this.#client.zrange(index, '0', '0', 'WITHSCORES');
          return { count: await count, since: since === undefined ? Infinity : Number(since) };
        }),
      );
      const threads = rows.reduce((sum, { count }) => sum + count, 0);
      const oldestMs = nowMs - Math.min(...rows.map(({ since }) => since));
      return threads === 0 ? { threads } : { threads, oldestMs: Math.max(0, oldestMs) };
    });
  }

  async findRun(runId: string): Promise<ThreadRef | undefined> {
    const partition = partitionOfRun(runId);
    if (partition === undefined) return undefined;
    const name = await this.#ask('finding a run', () => this.#client.hget(this.#keys.runs(partition), runId));
    return name === null ? undefined : parseThreadName(name);
  }

  async cancel(thread: ThreadRef, signalIds?: readonly string[]): Promise<string[]> {
    if (signalIds?.length === 0) return [];
    const { lease, token, inbox, state, index, out, runs } = this.#keys.thread(thread);
    const reply = await this.#run({
      script: this.#cancel,
      keys: [lease, token, inbox, state, index, out, runs],
      args: [threadName(thread), this.#keys.outputChannel(thread), ...(signalIds ?? [])],
    });
    return reply.texts(0);
  }

  async threadsWithDeadLetters(limit: number): Promise<ThreadRef[]> {
    const rows = await this.#ask('reading where dead letters are', () =>
      Promise.all(
        partitions.map(partition => this.#client.zrevrange(this.#keys.deadIndex(partition), 0, limit - 1, 'WITHSCORES')),
      ),
    );
    return rows
      .flatMap(row => row.flatMap((name, at) => (at % 2 === 0 ? [{ name, atMs: Number(row[at + 1]) }] : [])))
      .sort((a, b) => b.atMs - a.atMs)
      .slice(0, limit)
      .map(({ name }) => parseThreadName(name));
  }

  async deadLetters(thread: ThreadRef, limit: number): Promise<DeadLetter[]> {
    const { dead } = this.#keys.thread(thread);
    const rows = await this.#ask('reading dead letters', () => this.#client.xrange(dead, '-', '+', 'COUNT', limit));
    return rows.map(([id, fields]) => letterOf(id, fields));
  }

  async replay(thread: ThreadRef, ids?: readonly string[]): Promise<number> {
    if (ids?.length === 0) return 0;
    const { lease, inbox, state, index, dead, deadIndex } = this.#keys.thread(thread);
    const partition = partitionOf(thread);
    const reply = await this.#run({
      script: this.#replay,
      keys: [lease, inbox, state, index, dead, deadIndex],
      args: [
        threadName(thread), this.#keys.instanceChannelPrefix(partition), this.#keys.orphanChannel(partition), ...(ids ?? []),
      ],
    });
    return reply.number(0);
  }

  #run(call: ScriptCall): Promise<Reply> {
    return this.#ask(call.script.name, async () => replyOf(await runScript(this.#client, call)));
  }

  async #ask<T>(what: string, command: () => Promise<T>): Promise<T> {
    try {
      return await repeatable(this.#clock, command);
    } catch (error) {
      throw storeError(what, error);
    }
  }
}

function letterOf(id: string, fields: readonly string[]): DeadLetter {
  const values = new Map(fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1] ?? ''] as const] : [])));
  const branch = values.get('branch') === 'active' ? 'active' : 'idle';
  return {
    id,
    envelope: decodeEnvelope(values.get('signal') ?? '{}', branch),
    attempts: Number(values.get('attempts')),
    at: new Date(Number(id.split('-')[0])).toISOString(),
  };
}
