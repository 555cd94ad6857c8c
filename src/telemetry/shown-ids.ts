/**
 * How ids that may name a person are shown, on spans and in logs: as they are, or as the first 16 hex digits of their SHA-256, so
 * that who has an id can look for it and who has not learns none.
 */

import { createHash } from 'node:crypto';

import { threadLeaseKey } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';

/** As `threadLeaseKey` makes them, wherever they stand in a text; what percent-encoding leaves is all that they consist of. */
const leaseKeys = /thread:\{p\d{1,2}\}:[\w.!~*'()%-]+:[\w.!~*'()%-]+/g;
/** `/v1/threads/<resource>/<thread>`, and the like of other routes that somebody may have tried. */
const threadPaths = /(\/threads)((?:\/(?!subscribe\b|abort\b)[^/?#\s"']+){1,2})/g;
/** Fields of logs that hold an id and nothing else. Topics are others' words and may hold any. */
const idFields = new Set(['threadId', 'resourceId', 'topic']);
/** Shorter ones name nobody, and are part of many words. */
const shortestNamed = 3;

export class ShownIds {
  readonly hashed: boolean;

  constructor(hashed: boolean) {
    this.hashed = hashed;
  }

  id(id: string): string {
    return this.hashed ? createHash('sha256').update(id).digest('hex').slice(0, 16) : id;
  }

  /** A text that may hold lease keys, paths of threads, or the ids of this thread: an agent's error is in its own words. */
  text(text: string, thread?: ThreadRef): string {
    if (!this.hashed) return text;
    const known = thread ? this.#withoutIds(this.#withoutKey(text, thread), thread) : text;
    return known
      .replace(leaseKeys, key => this.id(key))
      .replace(threadPaths, (_, route: string, ids: string) => route + ids.replace(/[^/]+/g, id => this.id(decoded(id))));
  }

  /** Fields of a log line that are safe to write but for ids: plain values only. */
  fields(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    return this.hashed ? (this.#value(fields) as Record<string, unknown>) : fields;
  }

  #withoutKey(text: string, thread: ThreadRef): string {
    const key = threadLeaseKey(thread);
    return text.replaceAll(key, this.id(key));
  }

  #withoutIds(text: string, { resourceId, threadId }: ThreadRef): string {
    // The longer one first: the other may be a part of it.
    const ids = [resourceId, threadId].sort((one, other) => other.length - one.length);
    const named = ids.filter(id => id.length >= shortestNamed);
    return named.reduce((done, id) => done.replaceAll(id, this.id(id)).replaceAll(encodeURIComponent(id), this.id(id)), text);
  }

  #value(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value);
    if (Array.isArray(value)) return value.map(item => this.#value(item));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [name, idFields.has(name) && typeof inner === 'string' ? this.id(inner) : this.#value(inner)]),
    );
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not an encoded id: hashed as it stands
  }
}
