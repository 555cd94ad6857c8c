/** What a topic keeps: reading it back, and removing parts of it. */

import type { Event } from '../../contracts/pubsub.ts';
import { invalidOption } from '../../core/errors.ts';
import { decodeEntry, entriesOf } from './codec.ts';
import type { Entry, RawEntry } from './codec.ts';
import type { MainConnection } from './main-connection.ts';

export interface RunTrim {
  runId: string;
  /** Only events whose `data.producedAt` (ms since the epoch) is not later, and that are not `data.pinned`. */
  producedBefore?: number;
}

const pageSize = 500;

export async function historyOf(main: MainConnection, key: string): Promise<Event[]> {
  const events: Event[] = [];
  for await (const page of pages(main, key)) {
    for (const entry of page) {
      const decoded = decodeEntry(entry);
      if (decoded) events.push(decoded.event);
    }
  }
  return events;
}

export async function trimStream(main: MainConnection, key: string, keep: number): Promise<number> {
  if (!Number.isInteger(keep) || keep < 0) throw invalidOption('keep', keep, 'a whole number from 0');
  return await main.run('trim the topic', client => client.xtrim(key, 'MAXLEN', '=', keep));
}

export async function removeRun(main: MainConnection, key: string, what: RunTrim): Promise<number> {
  let removed = 0;
  for await (const page of pages(main, key)) {
    const ids = page.filter(entry => belongs(entry, what)).map(entry => entry.id);
    if (ids.length > 0) removed += await main.run('trim the topic', client => client.xdel(key, ...ids));
  }
  return removed;
}

function belongs(entry: Entry, { runId, producedBefore }: RunTrim): boolean {
  const event = decodeEntry(entry)?.event;
  if (event?.runId !== runId) return false;
  if (producedBefore === undefined) return true;
  const data = event.data as { producedAt?: unknown; pinned?: unknown } | undefined | null;
  return typeof data?.producedAt === 'number' && data.producedAt <= producedBefore && !data.pinned;
}

async function* pages(main: MainConnection, key: string): AsyncGenerator<Entry[]> {
  let from = '-';
  for (;;) {
    const raw = (await main.run('read the topic', client => client.xrange(key, from, '+', 'COUNT', pageSize))) as RawEntry[];
    yield entriesOf(raw);
    const last = raw.at(-1)?.[0];
    if (raw.length < pageSize || last === undefined) return;
    from = `(${last}`;
  }
}
