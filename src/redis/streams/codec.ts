/**
 * The wire format, shared with the original backend: one field `event` that holds the event's JSON, with `createdAt` as
 * ISO text. Ours beside it, which the original ignores: `traceparent` and `tracestate`.
 */

import { randomUUID } from 'node:crypto';

import type { Event, NewEvent } from '../../contracts/pubsub.ts';
import type { TraceCarrier } from '../../contracts/signal.ts';

const traceFields = ['traceparent', 'tracestate'] as const;

export interface Entry {
  readonly id: string;
  /** Name, value, name, value, ... */
  readonly fields: readonly string[];
}

/** One stream's part of the reply to `XREAD`, `XREADGROUP`, `XRANGE` or `XCLAIM`. */
export type RawEntry = [id: string, fields: string[] | null] | null;

export interface DecodedEntry {
  readonly event: Event;
  /** The event's JSON as it was read: a nack must not send what a handler did to its copy. */
  readonly json: string;
  readonly trace: TraceCarrier | undefined;
}

export function stampedEvent(event: NewEvent): Event {
  return { ...event, id: randomUUID(), createdAt: new Date(), deliveryAttempt: event.deliveryAttempt ?? 1 };
}

export function entryFields(json: string, trace: TraceCarrier | undefined): string[] {
  const fields = ['event', json];
  for (const name of traceFields) {
    const value = trace?.[name];
    if (value) fields.push(name, value);
  }
  return fields;
}

/** `undefined` when the entry holds no event: no such field, no JSON, or JSON that is not an object. */
export function decodeEntry(entry: Entry): DecodedEntry | undefined {
  const json = fieldOf(entry, 'event');
  const event = json === undefined ? undefined : parsedEvent(json);
  if (json === undefined || !event) return undefined;
  return { event, json, trace: entry.fields.length > 2 ? traceOf(entry) : undefined };
}

export function parsedEvent(json: string): Event | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    // Not JSON: the caller counts and reports what can't be decoded.
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const event = value as Event;
  if (typeof event.createdAt === 'string') event.createdAt = new Date(event.createdAt);
  return event;
}

/** The same event for its next attempt. */
export function retryFields(decoded: DecodedEntry, nextAttempt: number): string[] {
  const value = JSON.parse(decoded.json) as Record<string, unknown>;
  return entryFields(JSON.stringify({ ...value, deliveryAttempt: nextAttempt }), decoded.trace);
}

export function entriesOf(raw: readonly RawEntry[]): Entry[] {
  const entries: Entry[] = [];
  // An entry without fields was deleted between its listing and its reading.
  for (const entry of raw) if (entry?.[1]) entries.push({ id: entry[0], fields: entry[1] });
  return entries;
}

function traceOf(entry: Entry): TraceCarrier | undefined {
  const trace: Record<string, string> = {};
  for (const name of traceFields) {
    const value = fieldOf(entry, name);
    if (value !== undefined) trace[name] = value;
  }
  return trace['traceparent'] === undefined ? undefined : trace;
}

function fieldOf(entry: Entry, name: string): string | undefined {
  for (let at = 0; at < entry.fields.length; at += 2) if (entry.fields[at] === name) return entry.fields[at + 1];
  return undefined;
}
