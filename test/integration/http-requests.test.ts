import { connect } from 'node:net';
import { once } from 'node:events';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { SignalsError } from '../../src/core/errors.ts';
import type { ErrorBody } from '../../src/http/errors.ts';
import { createMetricsApp } from '../../src/http/app.ts';
import { listen } from '../../src/http/server.ts';
import { startHttp } from '../support/agents/http-rig.ts';
import type { HttpRig } from '../support/agents/http-rig.ts';

const thread = { resourceId: 'user-1', threadId: 'thread-1' };
const send = '/api/agents/echo/send-message';

let rig: HttpRig;
beforeEach(async () => {
  rig = await startHttp();
});
afterEach(() => rig.close());

async function errorOf(response: Response): Promise<ErrorBody['error']> {
  return ((await response.json()) as ErrorBody).error;
}

describe('what a sender says reaches the threads', () => {
  it('a message wakes, and the answer says what became of it', async () => {
    const response = await rig.post(send, { ...thread, message: 'hello' });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      accepted: true,
      runId: 'run-1',
      signal: { type: 'user', contents: 'hello', id: 'made-up-id', createdAt: '2026-01-02T03:04:05.678Z' },
      action: 'wake',
      owner: 'pod-1/run-1',
      fencingToken: 7,
      duplicate: false,
    });
    expect(rig.service.sent).toMatchObject([
      { agentId: 'echo', target: { thread }, turn: 'current', signal: { type: 'user', contents: 'hello' } },
    ]);
  });

  it('a queued message asks for a turn of its own', async () => {
    await rig.post('/api/agents/echo/queue-message', { ...thread, message: 'later' });
    expect(rig.service.sent).toMatchObject([{ turn: 'next', signal: { contents: 'later' } }]);
  });

  it('a message may be parts, or contents with attributes, metadata and provider options', async () => {
    const parts = [
      { type: 'text', text: 'look' },
      { type: 'file', data: 'aGk=', mediaType: 'image/png', filename: 'a.png' },
    ];
    const rich = { contents: parts, attributes: { a: 1, b: null }, metadata: { m: [1] }, providerOptions: { p: { q: 1 } } };
    await rig.post(send, { ...thread, message: parts });
    await rig.post(send, { ...thread, message: rich });
    expect(rig.service.sent.map(request => request.signal)).toMatchObject([
      { type: 'user', contents: parts },
      { type: 'user', ...rich },
    ]);
  });

  it('a signal is carried as it is, fields that we do not know included', async () => {
    const signal = { id: 's-1', type: 'state', contents: 'on', tagName: 'light', cacheKey: 'k', mode: 'delta', delta: { x: 1 } };
    const response = await rig.post('/api/agents/echo/signals', { ...thread, signal });
    expect(rig.service.sent[0]?.signal).toEqual(signal);
    expect(await response.json()).toMatchObject({ signal });
  });

  it('branches and run options are handed on, apart from each other', async () => {
    const ifActive = { behavior: 'persist', attributes: { from: 'active' } };
    const idle = { behavior: 'wake', attributes: { from: 'idle' } };
    const streamOptions = { maxSteps: 3, requestContext: { user: 'U' } };
    await rig.post(send, { ...thread, message: 'x', ifActive, ifIdle: { ...idle, streamOptions } });
    expect(rig.service.sent).toMatchObject([{ ifActive, ifIdle: idle, runOptions: streamOptions }]);
    expect(rig.service.sent[0]?.ifIdle).not.toHaveProperty('streamOptions');
  });

  it('a run is a target by itself, and together with its thread', async () => {
    await rig.post(send, { runId: 'run-9', message: 'x' });
    await rig.post(send, { runId: 'run-9', ...thread, message: 'x' });
    expect(rig.service.sent.map(request => request.target)).toEqual([{ runId: 'run-9' }, { runId: 'run-9', thread }]);
  });

  it('a retry with the same Idempotency-Key is the same message, and an id of its own comes first', async () => {
    const key = { 'Idempotency-Key': 'order-7' };
    await rig.post(send, { ...thread, message: 'x' }, key);
    await rig.post('/api/agents/echo/signals', { ...thread, signal: { id: 's-1', type: 'user', contents: 'x' } }, key);
    expect(rig.service.sent.map(request => request.signal.id)).toEqual(['order-7', 's-1']);
  });

  it('an abort names the thread and the run that it means', async () => {
    const response = await rig.post('/api/agents/echo/threads/abort', { ...thread, expectedRunId: 'run-1' });
    expect(await response.json()).toEqual({ aborted: true, runId: 'run-1', cancelledSignalIds: [] });
    expect(rig.service.aborts).toEqual([{ thread, expectedRunId: 'run-1' }]);
  });
});

describe('a mistake of the sender is named', () => {
  it.each([
    ['an empty thread id', { resourceId: 'r', threadId: '', message: 'x' }, 'threadId', 'threadId must not be empty, got ""'],
    ['no thread id', { resourceId: 'r', message: 'x' }, 'threadId', 'threadId must be a string that is not empty'],
    ['no target', { message: 'x' }, 'resourceId', 'resourceId must be a string that is not empty'],
    ['half a thread with a run', { runId: 'r', threadId: 't', message: 'x' }, 'resourceId', 'got nothing'],
    ['a number for a thread', { resourceId: 'r', threadId: 5, message: 'x' }, 'threadId', 'threadId must be a string, got 5'],
    ['no message', { ...thread }, 'message', 'message must be a string, an array'],
    ['a part of no known type', { ...thread, message: [{ type: 'video' }] }, 'message.0.type', 'got "video"'],
    ['a part without its text', { ...thread, message: { contents: [{ type: 'text' }] } }, 'message.contents.0.text', 'must be a string'],
    ['a behavior that there is not', { ...thread, message: 'x', ifIdle: { behavior: 'sleep' } }, 'ifIdle.behavior', '"wake", "persist", "discard"'],
    ['a body that is no object', [1], 'body', 'body must be an object, got an array of 1'],
    ['an id that is too long', { resourceId: 'r'.repeat(513), threadId: 't', message: 'x' }, 'resourceId', 'at most 512 characters'],
  ])('%s', async (_what, body, field, text) => {
    const response = await rig.post(send, body);
    expect(response.status).toBe(400);
    const error = await errorOf(response);
    expect(error).toMatchObject({ code: 'SIG_REQUEST_INVALID', retryable: false });
    expect(error.message).toContain(text);
    expect(error.details).toMatchObject({ fields: expect.arrayContaining([expect.objectContaining({ field })]) as unknown });
    expect(rig.service.sent).toEqual([]);
  });

  it('a signal that Mastra would refuse is refused at the door', async () => {
    const refused = async (signal: object) => await errorOf(await rig.post('/api/agents/echo/signals', { ...thread, signal }));
    expect(await refused({ type: 'state', contents: 'x', transient: true })).toMatchObject({ code: 'SIG_REQUEST_INVALID' });
    expect((await refused({ type: 'user', contents: 'x', createdAt: 'yesterday' })).message).toContain('signal.createdAt');
    expect((await refused({ contents: 'x' })).message).toContain('signal.type must be a string, got nothing');
    expect((await refused({ type: 'user', contents: 7 })).message).toContain('signal.contents must be a string or an array');
  });

  it.each([
    ['malformed JSON', '{"message":', { 'content-type': 'application/json' }],
    ['JSON that is a bare text', '"x"', { 'content-type': 'application/json' }],
    ['another content type', 'message=x', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['an unknown charset', '{}', { 'content-type': 'application/json; charset=klingon' }],
  ])('%s is malformed, and its text is not repeated', async (_what, body, headers) => {
    const response = await rig.post(send, body, headers);
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({ code: 'SIG_REQUEST_MALFORMED', retryable: false });
  });

  it('a body over the limit is refused, and the server lives', async () => {
    const response = await rig.post(send, { ...thread, message: 'x'.repeat(100_001) });
    expect(response.status).toBe(413);
    expect(await errorOf(response)).toMatchObject({ code: 'SIG_REQUEST_TOO_LARGE', details: { limitBytes: 100_000 } });
    expect((await rig.post(send, { ...thread, message: 'x' })).status).toBe(200);
  });

  it('an unknown agent is 404 with the known ones, on every route', async () => {
    for (const path of ['send-message', 'queue-message', 'signals', 'threads/subscribe', 'threads/abort']) {
      const response = await rig.post(`/api/agents/nobody/${path}`, { ...thread, message: 'x' });
      expect(response.status).toBe(404);
      expect(await errorOf(response)).toMatchObject({ code: 'SIG_AGENT_UNKNOWN', details: { known: ['echo'] } });
    }
  });

  it('an unknown route is 404, a path that cannot be decoded 400', async () => {
    const unknown = await fetch(`${rig.url}/api/nothing`);
    expect([unknown.status, (await errorOf(unknown)).code]).toEqual([404, 'SIG_ROUTE_UNKNOWN']);
    const broken = await fetch(`${rig.url}/api/agents/%E0%A4%A`);
    expect([broken.status, (await errorOf(broken)).code]).toEqual([400, 'SIG_REQUEST_MALFORMED']);
  });
});

describe('a failure is told with its code and whether it passes', () => {
  it.each([
    ['SIG_STORE_UNAVAILABLE', 503, true],
    ['SIG_RUNTIME_DRAINING', 503, true],
    ['SIG_INBOX_FULL', 429, true],
    ['SIG_SIGNAL_TOO_LARGE', 413, false],
    ['SIG_RUN_UNKNOWN', 404, false],
    ['SIG_LEASE_LOST', 409, false],
  ] as const)('%s is %i', async (code, status, retryable) => {
    rig.service.failure = new SignalsError(code, 'connect ECONNREFUSED 10.0.0.1:6379');
    const response = await rig.post(send, { ...thread, message: 'x' });
    expect(response.status).toBe(status);
    expect(response.headers.get('retry-after')).toBe(retryable ? '1' : null);
    const error = await errorOf(response);
    expect(error).toMatchObject({ code, retryable });
    // hosts of the inside are not for callers
    if (code === 'SIG_STORE_UNAVAILABLE') expect(error.message).not.toContain('10.0.0.1');
  });

  it('what nobody expected is 500, logged in full and told without its text', async () => {
    rig.service.failure = new Error('password is hunter2');
    const response = await rig.post(send, { ...thread, message: 'x' });
    expect(response.status).toBe(500);
    const text = await response.text();
    expect(JSON.parse(text)).toEqual({ error: { code: 'SIG_INTERNAL', message: 'internal error', retryable: false } });
    expect(rig.logger.lines).toMatchObject([{ level: 'error', fields: { error: 'password is hunter2', code: 'SIG_INTERNAL' } }]);
  });

  it('nothing tells what the server is made of', async () => {
    const response = await fetch(`${rig.url}/api/agents`);
    expect(response.headers.get('x-powered-by')).toBeNull();
  });
});

describe('tokens', () => {
  it('guard /api and /v1, not health; any of several will do', async () => {
    const guarded = await startHttp({ tokens: ['old-token', 'new-token'] });
    const status = async (path: string, authorization?: string) =>
      (await fetch(guarded.url + path, authorization === undefined ? {} : { headers: { authorization } })).status;
    try {
      expect(await status('/livez')).toBe(200);
      expect(await status('/readyz')).toBe(200);
      for (const path of ['/api/agents', '/v1/settings', '/api/nothing', '/API/agents/', '/api//agents', '/V1/openapi.json']) {
        expect(await status(path)).toBe(401);
        expect(await status(path, 'Bearer wrong')).toBe(401);
        expect(await status(path, 'Basic old-token')).toBe(401);
        expect(await status(path, 'Bearer ')).toBe(401);
      }
      expect(await status('/api/agents', 'Bearer old-token')).toBe(200);
      expect(await status('/v1/settings', 'bearer new-token')).toBe(200);
      const refused = await fetch(`${guarded.url}/api/agents`);
      expect(refused.headers.get('www-authenticate')).toBe('Bearer');
      expect((await errorOf(refused)).code).toBe('SIG_AUTH_REQUIRED');
    } finally {
      await guarded.close();
    }
  });

  it('a body is not read from somebody without a token', async () => {
    const guarded = await startHttp({ tokens: ['t'], limits: { bodyBytes: 10 } });
    const response = await guarded.post(send, { message: 'x'.repeat(1000) });
    expect(response.status).toBe(401);
    await guarded.close();
  });
});

describe('operators', () => {
  it('see threads owned here and threads that wait, at most as many as asked', async () => {
    rig.service.ownedThreads = [
      { thread, owner: 'pod-1/run-1', fencingToken: 7, waiting: 2, agentId: 'echo', runId: 'run-1', runStartedAt: '2026-01-02T03:04:05.678Z' },
    ];
    rig.service.waitingThreads = ['a', 'b', 'c'].map(id => ({ thread: { resourceId: 'r', threadId: id }, waiting: 1 }));
    const list = (await (await fetch(`${rig.url}/v1/threads?limit=2`)).json()) as { owned: unknown[]; waiting: unknown[] };
    expect(list.owned).toEqual(rig.service.ownedThreads);
    expect(list.waiting).toHaveLength(2);
    const one = await (await fetch(`${rig.url}/v1/threads/user-1/thread-1`)).json();
    expect(one).toMatchObject({ thread, owner: 'pod-1/run-1', fencingToken: 7, waiting: 2, agentId: 'echo', runId: 'run-1' });
    const idle = await (await fetch(`${rig.url}/v1/threads/user%2F1/t%3A1`)).json();
    expect(idle).toEqual({ thread: { resourceId: 'user/1', threadId: 't:1' }, waiting: 0 });
    for (const limit of ['0', '1001', 'ten', '1.5']) {
      const refused = await fetch(`${rig.url}/v1/threads?limit=${limit}`);
      expect([refused.status, (await errorOf(refused)).message]).toEqual([400, expect.stringContaining('limit must be')]);
    }
  });

  it('see settings, instances, and start a drain', async () => {
    expect(await (await fetch(`${rig.url}/v1/settings`)).json()).toMatchObject({
      effective: { MASTRA_AGENT_THREAD_LEASE_TTL_MS: { value: 15_000, source: 'default' } },
      lastRefusal: { source: 'configmap/tuning' },
    });
    expect(await (await fetch(`${rig.url}/v1/instances`)).json()).toMatchObject({ instances: [{ id: 'pod-1:abc', self: true }] });
    const drained = await rig.post('/v1/drain', {});
    expect([drained.status, await drained.json()]).toEqual([202, { draining: true }]);
    expect(rig.state.drains).toBe(1);
  });
});

describe('health', () => {
  it('says no with its reasons, and lives while the store is away', async () => {
    rig.service.failure = new SignalsError('SIG_STORE_UNAVAILABLE', 'away');
    Object.assign(rig.state, { ready: false, started: false });
    const ready = await fetch(`${rig.url}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([503, { ok: false, reasons: ['the store cannot be reached'] }]);
    expect((await fetch(`${rig.url}/startupz`)).status).toBe(503);
    expect((await fetch(`${rig.url}/livez`)).status).toBe(200);
  });
});

describe('the metrics port', () => {
  it('serves the page as Prometheus wants it, and nothing else', async () => {
    let page = () => Promise.resolve('# TYPE up gauge\nup 1\n');
    const metrics = await listen(createMetricsApp({ collect: () => page(), logger: rig.logger }), 0, '127.0.0.1');
    const url = `http://127.0.0.1:${metrics.port}`;
    const response = await fetch(`${url}/metrics`);
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(await response.text()).toBe('# TYPE up gauge\nup 1\n');
    expect((await fetch(`${url}/api/agents`)).status).toBe(404);
    page = () => Promise.reject(new Error('collector broke'));
    expect((await fetch(`${url}/metrics`)).status).toBe(500);
    await metrics.close(1000);
  });
});

describe('closing', () => {
  it('lets a request finish, ends kept-alive sockets, and takes no new ones', async () => {
    let answer = () => {};
    rig.service.onSend = request =>
      new Promise(resolve => {
        const signal = { ...request.signal, id: 's', createdAt: '2026-01-02T03:04:05.678Z' };
        answer = () => resolve({ action: 'wake', runId: 'r', signal, duplicate: false });
      });
    await (await fetch(`${rig.url}/livez`)).text(); // leaves a kept-alive socket behind
    const pending = rig.post(send, { ...thread, message: 'x' });
    while (rig.service.sent.length === 0) await new Promise(resolve => setImmediate(resolve));
    const closed = rig.close(60_000);
    await expect(fetch(`${rig.url}/livez`)).rejects.toThrow();
    answer();
    expect((await pending).status).toBe(200);
    await closed;
  });

  it('cuts what does not finish within its grace', async () => {
    rig.service.onSend = () => new Promise(() => {});
    const pending = rig.post(send, { ...thread, message: 'x' });
    const failed = expect(pending).rejects.toThrow();
    while (rig.service.sent.length === 0) await new Promise(resolve => setImmediate(resolve));
    await rig.close(50);
    await failed;
  });

  it('cuts a client that never finishes its request', async () => {
    const socket = connect(Number(new URL(rig.url).port), '127.0.0.1');
    await once(socket, 'connect');
    socket.write('POST /api/agents/echo/send-message HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{');
    socket.on('error', () => {}); // a reset is one way to be cut
    socket.resume();
    const gone = new Promise(resolve => socket.once('close', resolve));
    await fetch(`${rig.url}/livez`); // behind it, so the server has read what there is of the other
    await rig.close(50);
    await gone;
  });

  it('does not wait for sockets that were opened ahead of need', async () => {
    const socket = connect(Number(new URL(rig.url).port), '127.0.0.1');
    socket.on('error', () => {}); // a reset is one way to be closed
    socket.resume();
    const gone = new Promise(resolve => socket.once('close', resolve));
    await fetch(`${rig.url}/livez`); // the server has seen the socket by now, they come in order
    await rig.close(2 ** 30);
    await gone;
  });

  it('a port that is taken is an error, not a hang', async () => {
    const taken = listen(rig.app, Number(new URL(rig.url).port), '127.0.0.1');
    await expect(taken).rejects.toThrow('EADDRINUSE');
  });
});
