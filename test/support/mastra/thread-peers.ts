/** Starts `thread-peer.ts` processes, tells them what to do, and reads what their models noted. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import type { Redis } from 'ioredis';

export const resourceId = 'user';
export const notesKey = 'model-notes';

export interface PeerConfig {
  url: string;
  keyPrefix: string;
}

export type PeerCommand =
  | { do: 'send'; thread: string; texts: readonly string[]; awaiting: readonly string[] }
  | { do: 'queue'; thread: string; texts: readonly string[] }
  | { do: 'watch' | 'seen' | 'abort'; thread: string }
  | { do: 'transfers' };

export interface PeerAnswer {
  id: number;
  value?: unknown;
  error?: string;
}

/** What Mastra said about a signal. */
export interface Sent {
  text: string;
  action: string;
  runId?: string;
}

/** Start or end of a model call, in the order in which they happened. */
export interface ModelNote {
  thread: string;
  event: 'start' | 'end';
  process: number;
  /** The signals in the prompt, in its order. */
  texts: readonly string[];
  /** The lease's value at that time. */
  owner?: string;
}

export interface ThreadPeer {
  readonly pid: number;
  /** One after the other. A run of them ends when this process knows of all `awaiting`. */
  send(thread: string, texts: readonly string[], awaiting?: readonly string[]): Promise<Sent[]>;
  /** Each for a run of its own, after the one that is on. */
  queue(thread: string, texts: readonly string[]): Promise<Sent[]>;
  watch(thread: string): Promise<void>;
  /** Texts and types of the chunks that the watched thread put out. */
  seen(thread: string): Promise<string[]>;
  /** Through the subscription that `watch` made. */
  abort(thread: string): Promise<boolean>;
  /** How many leases it has handed from one of its runs to the next. */
  transfers(): Promise<number>;
  /** SIGKILL, and waits until it has gone. */
  kill(): Promise<void>;
}

/** The thread of a signal's text: `thread-1/what` is one of `thread-1`. */
export function threadOf(text: string): string {
  return text.split('/', 1)[0] ?? '';
}

/** What Mastra calls a thread when it asks for its lease. */
export function threadKeyOf(thread: string): string {
  return `${resourceId}\0${thread}`;
}

/** Where that lease is in Redis. */
export function leaseKeyOf(keyPrefix: string, thread: string): string {
  return `${keyPrefix}:lease:${threadKeyOf(thread)}`;
}

/** Where its events are. */
export function streamKeyOf(keyPrefix: string, thread: string): string {
  return `${keyPrefix}:agent.thread-stream.${encodeURIComponent(threadKeyOf(thread))}`;
}

export async function readNotes(client: Redis): Promise<ModelNote[]> {
  return (await client.lrange(notesKey, 0, -1)).map(row => JSON.parse(row) as ModelNote);
}

/** Model calls that began while another of the same thread was on, and ends that belong to none. */
export function overlapsIn(notes: readonly ModelNote[]): string[] {
  const on = new Map<string, ModelNote>();
  const overlaps: string[] = [];
  for (const note of notes) {
    const other = on.get(note.thread);
    if (note.event === 'start') {
      if (other) overlaps.push(`${note.thread}: ${note.process} began while ${other.process} was at work`);
      on.set(note.thread, note);
    } else {
      if (other?.process !== note.process) overlaps.push(`${note.thread}: ${note.process} ended what it had not begun`);
      on.delete(note.thread);
    }
  }
  return overlaps;
}

export function startPeer(config: PeerConfig, env: Record<string, string> = {}): ThreadPeer {
  const child = fork(join(import.meta.dirname, 'thread-peer.ts'), [JSON.stringify(config)], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    execArgv: [],
  });
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  child.on('message', ({ id, value, error }: PeerAnswer) => {
    const call = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) call?.resolve(value);
    else call?.reject(new Error(`process ${child.pid}: ${error}`));
  });
  const gone = once(child, 'exit').then(([code, signal]) => {
    for (const call of waiting.values()) call.reject(new Error(`process ${child.pid} ended with ${String(code ?? signal)}`));
  });
  const tell = async <T>(command: PeerCommand): Promise<T> => {
    const call = Promise.withResolvers<unknown>();
    waiting.set(++lastId, call);
    child.send({ id: lastId, command });
    return (await call.promise) as T;
  };
  return {
    pid: child.pid ?? -1,
    send: (thread, texts, awaiting = []) => tell({ do: 'send', thread, texts, awaiting }),
    queue: (thread, texts) => tell({ do: 'queue', thread, texts }),
    watch: thread => tell({ do: 'watch', thread }),
    seen: thread => tell({ do: 'seen', thread }),
    abort: thread => tell({ do: 'abort', thread }),
    transfers: () => tell({ do: 'transfers' }),
    async kill() {
      child.kill('SIGKILL');
      await gone;
    },
  };
}
