import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { readChunks } from '../../../src/agents/chunk-stream.ts';
import type { Chunk } from '../../../src/contracts/agent.ts';

async function* bytesOf(text: string, cuts: readonly number[] = []): AsyncIterable<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  const places = [...new Set(cuts.map(cut => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let from = 0;
  for (const place of [...places, bytes.length]) {
    yield bytes.subarray(from, place);
    from = place;
  }
}

async function read(type: string, text: string, cuts?: readonly number[]): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of readChunks(type, bytesOf(text, cuts))) chunks.push(chunk);
  return chunks;
}

const events = 'text/event-stream; charset=utf-8';
const lines = 'application/x-ndjson';
const chunk = fc.record({ type: fc.string(), payload: fc.jsonValue() }).map(value => JSON.parse(JSON.stringify(value)) as Chunk);
const cutting = fc.array(fc.nat(10_000), { maxLength: 30 });

describe('the output of a remote agent', () => {
  it('is read whole, however the network cuts it, within letters too', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(chunk), cutting, fc.constantFrom('\n', '\r\n'), async (chunks, cuts, newline) => {
        const texts = chunks.map(one => JSON.stringify(one));
        expect(await read(lines, texts.map(text => text + newline).join(''), cuts)).toEqual(chunks);
        const asEvents = texts.map(text => `id: 1${newline}data: ${text}${newline}${newline}: beat${newline}${newline}`).join('');
        expect(await read(events, asEvents, cuts)).toEqual(chunks);
      }),
    );
  });

  it('may be an event over several lines, without the space, and end with [DONE]', async () => {
    expect(await read(events, 'event: x\ndata:{"type":\ndata: "a"}\n\ndata: [DONE]\n\ndata: {"type":"b"}\n\n')).toEqual([{ type: 'a' }]);
  });

  it('may lack the last newline, and have empty lines', async () => {
    expect(await read('application/jsonl', '\n{"type":"a"}\n\n{"type":"b"}')).toEqual([{ type: 'a' }, { type: 'b' }]);
    expect(await read(lines, '')).toEqual([]);
  });

  it.each([
    ['another type', 'text/html', '<html>', 'got text/html'],
    ['half a JSON text', lines, '{"type":"a"}\n{"type":', 'not JSON'],
    ['half an event', events, 'data: {"type":"a"}\n', 'ended within an event'],
    ['no object', lines, '[1]\n', 'must be an object with a type'],
    ['no type', lines, '{"kind":"a"}\n', 'must be an object with a type'],
    ['a line without end', lines, 'x'.repeat(8 * 1024 * 1024 + 1), 'longer than 8388608'],
  ])('that is %s fails the run', async (_what, type, text, message) => {
    await expect(read(type, text)).rejects.toMatchObject({
      code: 'SIG_RUN_FAILED',
      message: expect.stringContaining(message) as string,
    });
  });

  it('does not hold more than a line while it looks for its end', async () => {
    let given = 0;
    async function* endless(): AsyncIterable<Uint8Array> {
      for (;;) {
        given += 1_000_000;
        yield new Uint8Array(1_000_000).fill(120);
      }
    }
    const reading = (async () => {
      for await (const _ of readChunks(lines, endless()));
    })();
    await expect(reading).rejects.toMatchObject({ code: 'SIG_RUN_FAILED' });
    expect(given).toBeLessThan(10_000_000);
  });
});
