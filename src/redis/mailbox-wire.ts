/** How the mailbox's scripts speak: what goes in as text, and replies as something that can be read safely. */

import { decodeEnvelope } from '../contracts/stored-envelope.ts';
import type { InboxEntry } from '../contracts/thread-mailbox.ts';
import { SignalsError } from '../core/errors.ts';

/** Entries read at a time when signals are taken: bounds the time of one script. */
export const takePageSize = 256;
/** Dead letters kept per thread (about), and for how long after the newest: a week to look at them. */
export const deadLettersKept = 100;
export const deadLettersKeptMs = 7 * 24 * 3_600_000;

export function decodeEntry(entry: Reply): InboxEntry {
  return {
    id: entry.text(0),
    envelope: decodeEnvelope(entry.text(1), entry.text(2) === 'active' ? 'active' : 'idle'),
    waking: entry.text(3) === '1',
    attempt: entry.number(4),
  };
}

/** A script's answer: a code, then values whose types are checked when they are read. */
export interface Reply {
  readonly code: string;
  text(at: number): string;
  number(at: number): number;
  texts(at: number): string[];
  list(at: number): Reply[];
}

/** Scripts answer `{code, value, ...}`. */
export function replyOf(raw: unknown): Reply {
  if (!Array.isArray(raw) || typeof raw[0] !== 'string') throw unreadable(raw);
  const values: unknown[] = raw.slice(1);
  return { ...rowOf(values), code: raw[0] };
}

function rowOf(values: readonly unknown[]): Reply {
  return {
    code: '',
    text: at => scalar(values[at]),
    number: at => Number(scalar(values[at])),
    texts: at => listOf(values[at]).map(scalar),
    list: at => listOf(values[at]).map(row => rowOf(listOf(row))),
  };
}

function listOf(value: unknown): unknown[] {
  if (Array.isArray(value)) return value;
  throw unreadable(value);
}

function scalar(value: unknown): string {
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  throw unreadable(value);
}

function unreadable(value: unknown): SignalsError {
  return new SignalsError('SIG_INTERNAL', `a script answered with ${typeof value}, which its caller can't read`);
}
