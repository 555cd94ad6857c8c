/** Chunks from a response body: server-sent events or one JSON text a line. */

import type { Chunk } from '../contracts/agent.ts';
import { SignalsError } from '../core/errors.ts';

/** Longer lines are a fault of the sender and would fill our memory. Counted in UTF-16 units. */
const longestLine = 8 * 1024 * 1024;

/** Throws `SIG_RUN_FAILED` when the type is neither, or when what comes are no chunks. */
export function readChunks(contentType: string | null, body: AsyncIterable<Uint8Array>): AsyncIterable<Chunk> {
  const type = contentType?.split(';')[0]?.trim().toLowerCase();
  if (type === 'text/event-stream') return fromEvents(linesOf(body));
  if (type === 'application/x-ndjson' || type === 'application/jsonl') return fromLines(linesOf(body));
  throw failed(`the agent must answer with text/event-stream or application/x-ndjson, got ${type ?? 'no type'}`);
}

async function* fromEvents(lines: AsyncIterable<string>): AsyncIterable<Chunk> {
  let data: string[] = [];
  for await (const line of lines) {
    if (line.startsWith('data:')) data.push(line.startsWith('data: ') ? line.slice(6) : line.slice(5));
    if (line !== '' || data.length === 0) continue; // comments and other fields say nothing of a chunk
    const text = data.join('\n');
    data = [];
    if (text === '[DONE]') return;
    yield chunkOf(text);
  }
  // By the standard an event without its blank line is dropped. Here that would be a chunk lost in silence.
  if (data.length > 0) throw failed('the output of the agent ended within an event');
}

async function* fromLines(lines: AsyncIterable<string>): AsyncIterable<Chunk> {
  for await (const line of lines) if (line.trim() !== '') yield chunkOf(line);
}

async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncIterable<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > longestLine) throw failed(`a line of the agent's output is longer than ${longestLine} characters`);
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line;
  }
  rest += decoder.decode();
  if (rest !== '') yield rest;
}

function chunkOf(text: string): Chunk {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw failed('the output of the agent is not JSON', error);
  }
  if (typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string') return value as Chunk;
  throw failed('a chunk of the agent must be an object with a type');
}

function failed(message: string, cause?: unknown): SignalsError {
  return new SignalsError('SIG_RUN_FAILED', message, { cause });
}
