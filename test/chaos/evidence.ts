/** Reads what a run left behind: the notes of the agents, and what Redis holds of the threads. */

import { Redis } from 'ioredis';

import { RedisKeys } from '../../src/redis/keys.ts';
import type { Fault, Given, Note, OutputRow } from './history.ts';
import { resourceId } from './names.ts';

/** Follows the notes, so that a look at how far things are costs no more than what is new. */
export class NoteReader {
  readonly notes: Note[] = [];
  readonly given: Given[] = [];
  readonly #redis: Redis;

  constructor(url: string) {
    this.#redis = new Redis(url);
  }

  async read(): Promise<readonly Note[]> {
    const rows = await this.#redis.lrange('notes', this.notes.length, -1);
    for (const row of rows) this.notes.push(JSON.parse(row) as Note);
    return this.notes;
  }

  async readGiven(): Promise<readonly Given[]> {
    const rows = await this.#redis.lrange('given', this.given.length, -1);
    for (const row of rows) this.given.push(JSON.parse(row) as Given);
    return this.given;
  }

  /** When pods got no turn. */
  async stalls(): Promise<Fault[]> {
    return (await this.#redis.lrange('stalls', 0, -1)).map(row => JSON.parse(row) as Fault);
  }

  close(): void {
    this.#redis.disconnect();
  }
}

export interface StoreEvidence {
  readonly output: OutputRow[];
  readonly deadLettered: Set<string>;
  readonly leftovers: string[];
}

export async function readStore(url: string, threads: readonly string[]): Promise<StoreEvidence> {
  const redis = new Redis(url);
  const keys = new RedisKeys();
  const evidence: StoreEvidence = { output: [], deadLettered: new Set(), leftovers: [] };
  try {
    for (const threadId of threads) {
      const { out, dead, inbox, state, lease, token } = keys.thread({ resourceId, threadId });
      for (const [, fields] of await redis.xrange(out, '-', '+')) evidence.output.push(outputRow(threadId, fieldsOf(fields)));
      for (const [, fields] of await redis.xrange(dead, '-', '+')) evidence.deadLettered.add(fieldsOf(fields)['id'] ?? '');
      for (const key of [inbox, state, lease, token]) if ((await redis.exists(key)) > 0) evidence.leftovers.push(key);
    }
    for (const kind of ['waiting', 'runs']) {
      for (const key of await redis.keys(`${keys.prefix}:${kind}:*`)) evidence.leftovers.push(key);
    }
  } finally {
    redis.disconnect();
  }
  return evidence;
}

function fieldsOf(fields: readonly string[]): Record<string, string> {
  return Object.fromEntries(fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1] ?? '']] : [])));
}

function outputRow(thread: string, { chunk = '{}' }: Record<string, string>): OutputRow {
  const { type = '', runId = '', payload: { text, reason } = {} } = JSON.parse(chunk) as {
    type?: string; runId?: string; payload?: { text?: string; reason?: string };
  };
  return { thread, runId, type, ...(text === undefined ? {} : { text }), ...(reason === undefined ? {} : { reason }) };
}
