import { request as httpRequest } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { once } from 'node:events';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { SignalsError } from '../../src/core/errors.ts';
import { startHttp } from '../support/agents/http-rig.ts';
import type { HttpRig } from '../support/agents/http-rig.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user-1', threadId: 'thread-1' };
const path = '/api/agents/echo/threads/subscribe';
const standard = { accept: 'text/event-stream' };

let rig: HttpRig;
beforeEach(async () => {
  rig = await startHttp({ heartbeatMs: 60_000 });
});
afterEach(() => rig.close());

/** The text of a stream as it grows. */
class Reader {
  text = '';
  ended = false;
  readonly #controller = new AbortController();
  static async open(of: HttpRig, headers: Record<string, string> = {}, body: object = {}): Promise<Reader> {
    const reader = new Reader();
    const response = await fetch(of.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ ...thread, ...body }),
      signal: reader.#controller.signal,
    });
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    void reader.#read(response);
    return reader;
  }

  async #read(response: Response): Promise<void> {
    const decoder = new TextDecoder();
    try {
      for await (const bytes of response.body as AsyncIterable<Uint8Array>) this.text += decoder.decode(bytes, { stream: true });
    } catch {
      // left by the test itself
    }
    this.ended = true;
  }

  leave(): void {
    this.#controller.abort();
  }
}

describe('a thread is followed', () => {
  it('headers come before there is anything to read', async () => {
    const reader = await Reader.open(rig);
    expect(reader.text).toBe('');
    reader.leave();
  });

  it('whoever asks for server-sent events gets them as the standard says', async () => {
    const reader = await Reader.open(rig, standard);
    rig.service.put(thread, { type: 'start' }, { type: 'text-delta', payload: { text: 'two\n\nlines' } });
    const expected = [
      'id: 1-0\ndata: {"type":"start"}\n\n',
      'id: 2-0\ndata: {"type":"text-delta","payload":{"text":"two\\n\\nlines"}}\n\n',
    ].join('');
    await until('both chunks came', () => reader.text.length >= expected.length);
    expect(reader.text).toBe(expected);
    reader.leave();
  });

  it('the client of Mastra gets blocks that start with their data, ids apart', async () => {
    const reader = await Reader.open(rig);
    rig.service.put(thread, { type: 'start' });
    await until('the chunk and its id came', () => reader.text.includes('id: '));
    expect(reader.text).toBe('data: {"type":"start"}\n\nid: 1-0\n\n');
    reader.leave();
  });

  it('goes on after the last event that was seen, by header and by body', async () => {
    rig.service.put(thread, { type: 'one' }, { type: 'two' }, { type: 'three' });
    const byHeader = await Reader.open(rig, { ...standard, 'last-event-id': '2-0' });
    const byBody = await Reader.open(rig, standard, { lastEventId: '1-0' });
    await until('both are through', () => byHeader.text.includes('three') && byBody.text.includes('three'));
    expect(byHeader.text).not.toContain('two');
    expect(byBody.text).toContain('two');
    expect(rig.service.follows.map(follow => follow.after)).toEqual(['2-0', '1-0']);
    byHeader.leave();
    byBody.leave();
  });

  it.each(['abc', '5', '*', '99999999999999999999-0', '1-0; drop'])('an event id that was never given (%s) is refused', async id => {
    const byHeader = await rig.post(path, thread, { ...standard, 'last-event-id': id });
    const byBody = await rig.post(path, { ...thread, lastEventId: id }, standard);
    for (const [response, field] of [[byHeader, 'Last-Event-ID'], [byBody, 'lastEventId']] as const) {
      expect(response.status).toBe(400);
      const message = `${field} must be the id of an event that was received, got ${JSON.stringify(id)}`;
      expect(await response.json()).toMatchObject({ error: { code: 'SIG_REQUEST_INVALID', message } });
    }
    expect(rig.service.follows).toEqual([]);
  });

  it('silence is filled with comments', async () => {
    const quick = await startHttp({ heartbeatMs: 5 });
    const reader = await Reader.open(quick, standard);
    await until('two heartbeats came', () => reader.text.split(': heartbeat\n\n').length > 2);
    expect(reader.text.replaceAll(': heartbeat\n\n', '')).toBe('');
    reader.leave();
    await quick.close();
  });

  it('without a resource the thread is one of the agent’s own', async () => {
    const response = await rig.post('/api/agents/echo/threads/abort', { threadId: 't' });
    expect(response.status).toBe(200);
    expect(rig.service.aborts).toMatchObject([{ thread: { resourceId: 'echo', threadId: 't' } }]);
  });
});

describe('a viewer', () => {
  it('that goes stops nothing but its own view', async () => {
    const [stays, goes] = [await Reader.open(rig, standard), await Reader.open(rig, standard)];
    await until('both follow', () => rig.service.openFollows === 2);
    goes.leave();
    await until('one is gone', () => rig.service.openFollows === 1);
    rig.service.put(thread, { type: 'later' });
    await until('the other sees what comes', () => stays.text.includes('later'));
    expect(rig.service.aborts).toEqual([]);
    stays.leave();
    await until('none is left', () => rig.service.openFollows === 0);
  });

  it('that does not read holds up only itself, and takes a bounded amount of what there is', async () => {
    const socket = await deafReader(rig);
    await until('it follows', () => rig.service.openFollows === 1);
    const chunk = { type: 'text-delta', payload: 'x'.repeat(100_000) };
    rig.service.put(thread, ...Array.from({ length: 1000 }, () => chunk));
    let before = -1;
    await until('nothing more is taken', async () => {
      await new Promise(resolve => setTimeout(resolve, 100));
      const still = rig.service.handedOut === before;
      before = rig.service.handedOut;
      return still;
    });
    expect(rig.service.handedOut).toBeLessThan(500);
    const quick = await Reader.open(rig, standard, { lastEventId: '999-0' });
    await until('another reads on', () => quick.text.includes('id: 1000-0'));
    quick.leave();
    socket.destroy();
    await until('none is left', () => rig.service.openFollows === 0);
  });

  it('that reads nothing at all is cut off in the end', async () => {
    const quick = await startHttp({ heartbeatMs: 10 });
    const socket = await deafReader(quick);
    await until('it follows', () => quick.service.openFollows === 1);
    quick.service.put(thread, ...Array.from({ length: 1000 }, () => ({ type: 'big', payload: 'x'.repeat(100_000) })));
    await until('it is left', () => quick.service.openFollows === 0);
    expect(quick.service.handedOut).toBeLessThan(1000);
    socket.destroy();
    await quick.close();
  });

  it('of a thread that cannot be followed gets an error, not an empty stream', async () => {
    rig.service.failure = new SignalsError('SIG_STORE_UNAVAILABLE', 'away');
    const response = await rig.post(path, thread, standard);
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ error: { code: 'SIG_STORE_UNAVAILABLE', retryable: true } });
  });

  it('is told by the end of its stream that the thread cannot be followed', async () => {
    const reader = await Reader.open(rig, standard);
    await until('it follows', () => rig.service.openFollows === 1);
    rig.service.put(thread, { type: 'one' });
    await until('it reads', () => reader.text.includes('one'));
    rig.service.break(new SignalsError('SIG_STORE_UNAVAILABLE', 'connect ECONNREFUSED 10.0.0.1:6379'));
    await until('it ended', () => reader.ended);
    expect(reader.text).toContain(': ended early: SIG_STORE_UNAVAILABLE\n\n');
    expect(reader.text).not.toContain('10.0.0.1');
    expect(rig.logger.lines).toMatchObject([{ level: 'warn' }]);
  });
});

describe('closing', () => {
  it('ends the streams, those of slow readers too, within its grace', async () => {
    const reader = await Reader.open(rig, standard);
    rig.service.put(thread, { type: 'one' });
    await until('it reads', () => reader.text.includes('one'));
    const stuck = await stuckReader(rig);
    await until('both follow', () => rig.service.openFollows === 2);
    rig.service.put(thread, ...Array.from({ length: 200 }, () => ({ type: 'big', payload: 'x'.repeat(100_000) })));
    const closed = rig.close(500);
    await until('the good one ended', () => reader.ended);
    await closed;
    stuck.destroy();
    expect(rig.service.openFollows).toBe(0);
  });
});

/** Never reads: what is sent to it stays in buffers, and those end. */
async function deafReader(of: HttpRig): Promise<Socket> {
  const body = JSON.stringify(thread);
  const socket = connect(Number(new URL(of.url).port), '127.0.0.1');
  await once(socket, 'connect');
  const head = ['Host: x', 'Content-Type: application/json', `Content-Length: ${body.length}`].join('\r\n');
  socket.write(`POST ${path} HTTP/1.1\r\n${head}\r\n\r\n${body}`);
  return socket;
}

async function stuckReader(of: HttpRig): Promise<IncomingMessage> {
  const request = httpRequest(of.url + path, { method: 'POST', headers: { 'content-type': 'application/json' } });
  request.end(JSON.stringify(thread));
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.on('error', () => {}); // it will be cut
  return response;
}
