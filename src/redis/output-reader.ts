/**
 * Follows a thread's output: reads what is there, then waits for a hint. What a reader has seen is a position in the stream, so
 * it can go on at another instance, and a lost hint costs a delay only.
 */

import type { Chunk } from '../contracts/agent.ts';
import { missedChunk } from '../contracts/notices.ts';
import type { FollowRequest, OutputChunk } from '../contracts/thread-mailbox.ts';
import type { Clock } from '../core/clock.ts';
import { sleep } from '../core/waits.ts';
import { storeError } from './connection.ts';
import type { RedisClient } from './connection.ts';
import type { RedisKeys, ThreadKeys } from './keys.ts';
import { repeatable } from './repeatable.ts';
import type { ShardedChannels } from './sharded-channels.ts';
import { compareIds, streamStart } from './streams/stream-id.ts';

/** Chunks per read. */
const pageSize = 200;
/** Without a hint for this long a reader looks anyway. */
const lookAnywayMs = 15_000;

interface OutputSource {
  client: RedisClient;
  channels: ShardedChannels;
  keys: RedisKeys;
  clock: Clock;
  /** For how long output is kept after the last chunk. */
  retentionMs: number;
}

interface Row extends OutputChunk {
  /** The position of the chunk that was put out before this one. */
  previous: string;
}

/** Resolves when the position to read from is fixed. */
export async function followOutput(source: OutputSource, request: FollowRequest): Promise<AsyncIterable<OutputChunk>> {
  const keys = source.keys.thread(request.thread);
  if (request.after === undefined) return readOutput(source, request, await startOf(source, keys));
  const end = await endOf(source, keys);
  // Nothing is there that would come after what the reader has seen, nor that itself: it is told before anything is put out.
  return compareIds(end, request.after) < 0 ? readOutput(source, request, end, request.after) : readOutput(source, request, request.after);
}

/** `gone`: what the reader had seen, where that is not known here any more. */
async function* readOutput(source: OutputSource, request: FollowRequest, start: string, gone?: string): AsyncGenerator<OutputChunk> {
  const keys = source.keys.thread(request.thread);
  const channel = source.keys.outputChannel(request.thread);
  const hints = new HintCounter();
  let cursor = start;
  try {
    // Until it stands nothing is heard, and then there is a look: no need to wait for it.
    void source.channels.add([channel], hints);
    if (gone !== undefined) yield { id: start, chunk: missedChunk(gone, start) };
    while (!request.signal.aborted) {
      const seen = hints.heard;
      const page = await readPage(source, keys, cursor);
      for (const { previous, ...output } of page) {
        if (request.signal.aborted) return;
        if (previous !== cursor) yield { id: previous, chunk: missedChunk(cursor, previous) };
        cursor = output.id;
        yield output;
      }
      if (page.length > 0) continue;
      if (hints.takeDoubt()) {
        const end = await endOf(source, keys);
        if (compareIds(end, cursor) < 0) {
          // What was kept for long enough may go. Anything else that ends before the position that was read has lost something.
          if (end !== streamStart || !(await hasExpired(source, cursor))) yield { id: end, chunk: missedChunk(cursor, end) };
          cursor = end;
          continue;
        }
      }
      await hints.beyond(seen, source.clock, request.signal);
    }
  } finally {
    source.channels.remove([channel], hints);
  }
}

async function readPage({ client, clock }: OutputSource, keys: ThreadKeys, cursor: string): Promise<Row[]> {
  try {
    const rows = await repeatable(clock, () => client.xrange(keys.out, `(${cursor}`, '+', 'COUNT', pageSize));
    return rows.map(([id, fields]) => rowOf(id, fields));
  } catch (error) {
    throw storeError('reading output', error);
  }
}

function rowOf(id: string, [, text = 'null', , previous = streamStart]: string[]): Row {
  return { id, chunk: JSON.parse(text) as Chunk, previous };
}

async function endOf({ client, clock }: OutputSource, keys: ThreadKeys): Promise<string> {
  try {
    const last = await repeatable(clock, () => client.xrevrange(keys.out, '+', '-', 'COUNT', 1));
    return last[0]?.[0] ?? streamStart;
  } catch (error) {
    throw storeError('finding the end of the output', error);
  }
}

/** Whether output whose last chunk was this one is no longer kept, by the server's clock, of which positions are made. */
async function hasExpired({ client, clock, retentionMs }: OutputSource, last: string): Promise<boolean> {
  try {
    const [seconds] = await repeatable(clock, () => client.time());
    return Number(seconds) * 1000 - Number.parseInt(last, 10) >= retentionMs - 1000;
  } catch (error) {
    throw storeError('reading the time', error);
  }
}

/** The start of the run that is on, else the end of what there is. */
async function startOf({ client, clock }: OutputSource, keys: ThreadKeys): Promise<string> {
  try {
    const [owner, from, last] = await repeatable(clock, () =>
      Promise.all([
        client.get(keys.lease),
        client.hget(keys.state, 'from'),
        client.xrevrange(keys.out, '+', '-', 'COUNT', 1),
      ]),
    );
    return (owner === null ? undefined : from) ?? last[0]?.[0] ?? streamStart;
  } catch (error) {
    throw storeError('finding the start of the output', error);
  }
}

/** Counts hints, so that one which comes during a read is not missed. */
class HintCounter {
  heard = 0;
  #doubt = false;
  #wake = new AbortController();

  onMessage(): void {
    this.heard++;
    this.#wake.abort();
  }

  onResync(): void {
    this.#doubt = true;
    this.onMessage();
  }

  /** Whether the store may have been another one meanwhile, or nothing was heard for long. Asking ends it. */
  takeDoubt(): boolean {
    const doubt = this.#doubt;
    this.#doubt = false;
    return doubt;
  }

  /** Resolves when more than `seen` were heard, at the latest after `lookAnywayMs`, or when `signal` aborts. */
  async beyond(seen: number, clock: Clock, signal: AbortSignal): Promise<void> {
    if (this.heard > seen) return;
    this.#wake = new AbortController();
    await sleep(clock, lookAnywayMs, AbortSignal.any([this.#wake.signal, signal]));
    this.#doubt ||= this.heard === seen;
  }
}
