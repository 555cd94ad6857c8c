/** Follows a thread's output, wherever its runs are. */

import { missedChunk } from '../../contracts/notices.ts';
import type { FollowRequest, OutputChunk } from '../../contracts/thread-mailbox.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import type { Clock } from '../../core/clock.ts';
import type { LocalThread, LocalThreads } from './local-threads.ts';
import type { OutputFeeds } from './output-feeds.ts';
import type { LoggedChunk } from './output-log.ts';
import type { PeerLink } from './peer-link.ts';
import { beginning, comparePositions, laterOf } from './positions.ts';
import type { ThreadLeases } from './thread-leases.ts';

/** Chunks per read. */
const pageSize = 1000;

export interface OutputPage {
  readonly chunks: readonly LoggedChunk[];
  /** There are more behind these. */
  readonly more: boolean;
}

export interface OutputEnd {
  readonly last: string;
  /** Where the output of the run that is on began. */
  readonly runFrom?: string;
}

export interface OutputSources {
  threads: LocalThreads;
  feeds: OutputFeeds;
  link: PeerLink;
  leases: ThreadLeases;
  clock: Clock;
}

/** Resolves when the position to read from is fixed. */
export async function followOutput(sources: OutputSources, request: FollowRequest): Promise<AsyncIterable<OutputChunk>> {
  await sources.link.start();
  const { after, thread } = request;
  if (after === undefined) return readOutput(sources, request, await startOf(sources, thread));
  const end = lastOf(await endsOf(sources, thread));
  // Who had put out what the reader has seen is gone, and all of it: the reader is told before anything is put out.
  return comparePositions(end, after) < 0 ? readOutput(sources, request, end, after) : readOutput(sources, request, after);
}

/** `gone`: what the reader had seen, where nobody knows that any more. */
async function* readOutput(sources: OutputSources, request: FollowRequest, start: string, gone?: string): AsyncGenerator<OutputChunk> {
  const { thread, signal } = request;
  const feed = await sources.feeds.open(thread);
  let cursor = start;
  try {
    if (gone !== undefined) yield { id: start, chunk: missedChunk(gone, start) };
    while (!signal.aborted) {
      const seen = feed.heard;
      const chunks = feed.after(cursor, pageSize) ?? (await readEverywhere(sources, thread, cursor));
      for (const { previous, id, chunk } of chunks) {
        if (signal.aborted) return;
        // Before it: whoever put this out does not know what the reader has seen, since its owner died with it.
        if (previous !== cursor) yield { id: previous, chunk: missedChunk(cursor, previous) };
        cursor = id;
        yield { id, chunk };
      }
      if (chunks.length === 0) await feed.beyond(seen, sources.clock, signal);
    }
  } finally {
    await sources.feeds.close(thread, feed);
  }
}

export function readHere(local: LocalThread | undefined, after: string): OutputPage {
  const chunks = local?.log.after(after, pageSize) ?? [];
  return { chunks, more: chunks.length === pageSize };
}

export function endHere(local: LocalThread | undefined, owner: string | undefined): OutputEnd | undefined {
  if (!local) return undefined;
  const isOn = local.run !== undefined && local.run.owner === owner;
  return { last: local.log.last, ...(isOn && local.run && { runFrom: local.run.outputFrom }) };
}

/** The start of the run that is on, else the end of what there is. */
async function startOf(sources: OutputSources, thread: ThreadRef): Promise<string> {
  const ends = await endsOf(sources, thread);
  return ends.find(({ runFrom }) => runFrom !== undefined)?.runFrom ?? lastOf(ends);
}

async function endsOf({ leases, threads, link }: OutputSources, thread: ThreadRef): Promise<OutputEnd[]> {
  const here = endHere(threads.find(thread), await leases.ownerOf(thread));
  if (here?.runFrom !== undefined) return [here];
  return [here, ...((await link.askAll('end', { thread })) as (OutputEnd | undefined)[])].filter(end => end !== undefined);
}

function lastOf(ends: readonly OutputEnd[]): string {
  return ends.reduce((last, end) => laterOf(last, end.last), beginning);
}

/** A thread that moved left older parts of its output with its former owners. */
async function readEverywhere({ threads, link }: OutputSources, thread: ThreadRef, after: string): Promise<LoggedChunk[]> {
  const local = threads.find(thread);
  const here = readHere(local, after);
  if (local?.log.covers(after) && here.chunks.length > 0) return [...here.chunks];
  const pages = [here, ...((await link.askAll('output', { thread, after })) as OutputPage[])];
  const merged = new Map(pages.flatMap(page => page.chunks.map(chunk => [chunk.id, chunk] as const)));
  // Behind the end of a page that goes on, something of that page's owner would be missing.
  const ends = pages.filter(page => page.more).map(page => page.chunks.at(-1)?.id ?? after);
  return [...merged.values()]
    .filter(({ id }) => ends.every(end => comparePositions(id, end) <= 0))
    .sort((a, b) => comparePositions(a.id, b.id));
}
