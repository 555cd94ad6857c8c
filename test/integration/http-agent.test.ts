import type { ServerResponse } from 'node:http';

import { afterEach, describe, expect, it } from 'vitest';

import { httpAgent } from '../../src/agents/http-agent.ts';
import type { HttpAgentOptions } from '../../src/agents/http-agent.ts';
import type { AgentRun, Chunk } from '../../src/contracts/agent.ts';
import { agentRun, signal } from '../support/agents/agent-run.ts';
import { startRemoteAgent } from '../support/agents/remote-agent.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { until } from '../support/until.ts';

/** Shows when the adapter heard something: each time it sets its timer anew. */
class CountingClock extends FakeClock {
  timersSet = 0;

  override after(delayMs: number, action: () => void) {
    this.timersSet++;
    return super.after(delayMs, action);
  }
}

let remote: Awaited<ReturnType<typeof startRemoteAgent>>;
afterEach(() => remote.stop());

const ndjson = { 'content-type': 'application/x-ndjson' };
const one = '{"type":"one"}\n';
const two = '{"type":"two"}\n';

async function run(options: Partial<HttpAgentOptions> = {}, given: AgentRun = agentRun()) {
  const chunks: Chunk[] = [];
  const failure = await (async () => {
    for await (const chunk of httpAgent({ id: 'far', url: remote.url, ...options }).run(given)) chunks.push(chunk);
  })().catch((error: unknown) => error as Error & { code: string });
  return { types: chunks.map(chunk => chunk.type), failure };
}

describe('a remote agent', () => {
  it('gets the signals and who may act on them, and its chunks come back', async () => {
    remote = await startRemoteAgent(response => void response.writeHead(200, ndjson).end(one + two));
    const given = agentRun({ signals: [signal('a', { id: 's-1' })], attempt: 2, options: { maxSteps: 1 } });
    const traceHeaders = () => ({ traceparent: '00-1-2-01' });
    const { types, failure } = await run({ headers: { authorization: 'Bearer x' }, traceHeaders }, given);
    expect([types, failure]).toEqual([['one', 'two'], undefined]);
    expect(remote.seen).toMatchObject([
      {
        headers: {
          authorization: 'Bearer x',
          traceparent: '00-1-2-01',
          'signals-fencing-token': '7',
          'signals-run-id': 'run-1',
          'signals-attempt': '2',
        },
        body: {
          agentId: 'echo',
          runId: 'run-1',
          thread: { resourceId: 'user-1', threadId: 'thread-1' },
          signals: [{ id: 's-1', type: 'user', contents: 'a' }],
          attempt: 2,
          fencingToken: 7,
          options: { maxSteps: 1 },
        },
      },
    ]);
  });

  it('may answer with server-sent events', async () => {
    remote = await startRemoteAgent(response => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': hi\n\nid: 1\ndata: {"type":"one"}\n\n');
    });
    expect(await run()).toEqual({ types: ['one'], failure: undefined });
  });

  it('is asked again while it is busy or gone, as long as nothing came of it', async () => {
    remote = await startRemoteAgent((response, call) => {
      if (call === 1) response.writeHead(503).end('busy');
      else if (call === 2) response.destroy();
      else response.writeHead(200, ndjson).end(one);
    });
    expect(await run()).toEqual({ types: ['one'], failure: undefined });
    expect(remote.seen).toHaveLength(3);
  });

  it('is asked at most as often as said, and the run fails with why', async () => {
    remote = await startRemoteAgent(response => void response.writeHead(503).end());
    const { failure } = await run({ attempts: 2 });
    expect(failure).toMatchObject({ code: 'SIG_RUN_FAILED', message: 'agent "far" failed at try 2: it answered 503' });
    expect(remote.seen).toHaveLength(2);
  });

  it.each([400, 401, 404, 307])('is not asked again after %i', async status => {
    remote = await startRemoteAgent(response => void response.writeHead(status, { location: '/elsewhere' }).end());
    expect((await run()).failure).toMatchObject({ code: 'SIG_RUN_FAILED', message: expect.stringContaining(`${status}`) as string });
    expect(remote.seen).toHaveLength(1);
  });

  it('is never asked again once a chunk was seen', async () => {
    remote = await startRemoteAgent(response => {
      response.writeHead(200, ndjson);
      response.write(one, () => response.destroy());
    });
    const { types, failure } = await run();
    expect([types, failure?.code]).toEqual([['one'], 'SIG_RUN_FAILED']);
    expect(remote.seen).toHaveLength(1);
  });

  it('that does not answer in time is left', async () => {
    remote = await startRemoteAgent(() => {});
    const clock = new FakeClock();
    const running = run({ attempts: 1, responseTimeoutMs: 30_000, clock });
    await until('it was asked', () => remote.seen.length === 1);
    await clock.advance(30_000);
    expect((await running).failure?.message).toBe('agent "far" failed at try 1: it gave no answer for 30000 ms');
    await until('it knows', () => remote.seen[0]?.left);
  });

  it('that falls silent is left, and comments are no silence', async () => {
    let answering: ServerResponse | undefined;
    remote = await startRemoteAgent(response => {
      answering = response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
    });
    const clock = new CountingClock();
    const running = run({ idleTimeoutMs: 1000, clock });
    await until('the answer began', () => clock.timersSet === 2); // one for the answer, one for its silence
    for (let beat = 1; beat <= 5; beat++) {
      await clock.advance(900);
      answering?.write(': beat\n\n');
      await until('the beat was heard', () => clock.timersSet === 2 + beat);
    }
    answering?.write('data: {"type":"one"}\n\n');
    await until('the chunk was read', () => clock.timersSet === 8);
    await clock.advance(1000);
    const { types, failure } = await running;
    expect(types).toEqual(['one']);
    expect(failure?.message).toContain('it was silent for 1000 ms');
    await until('it knows', () => remote.seen[0]?.left);
  });

  it('is not blamed for a slow reader', async () => {
    remote = await startRemoteAgent(response => void response.writeHead(200, ndjson).end(one + two));
    const clock = new FakeClock();
    const types: string[] = [];
    for await (const chunk of httpAgent({ id: 'far', url: remote.url, idleTimeoutMs: 1000, clock }).run(agentRun())) {
      types.push(chunk.type);
      await clock.advance(5000);
    }
    expect(types).toEqual(['one', 'two']);
  });

  it.each(['before it answered', 'within its answer', 'between two tries'])('is left at once when the run is told to stop %s', async when => {
    remote = await startRemoteAgent(response => {
      if (when === 'within its answer') response.writeHead(200, ndjson).write(one);
      if (when === 'between two tries') response.writeHead(503).end();
    });
    const controller = new AbortController();
    const running = run({}, agentRun({ abortSignal: controller.signal }));
    await until('it was asked', () => remote.seen.length === 1);
    controller.abort();
    const { failure } = await running;
    expect(failure).toBeUndefined();
    if (when !== 'between two tries') await until('it knows', () => remote.seen[0]?.left);
    expect(remote.seen).toHaveLength(1);
  });

  it('is left when its reader goes', async () => {
    remote = await startRemoteAgent(response => void response.writeHead(200, ndjson).write(one));
    for await (const _ of httpAgent({ id: 'far', url: remote.url }).run(agentRun())) break;
    await until('it knows', () => remote.seen[0]?.left);
  });

  it('needs sound options', async () => {
    remote = await startRemoteAgent(() => {});
    const make = (options: Partial<HttpAgentOptions>) => () => httpAgent({ id: 'x', url: remote.url, ...options });
    expect(make({ url: 'ftp://x' })).toThrow('url must be an http: or https: URL, got "ftp://x"');
    expect(make({ url: 'x' })).toThrow('url must be');
    expect(make({ id: '' })).toThrow('id must be');
    expect(make({ attempts: 0 })).toThrow('attempts must be a whole number from 1 to 100, got 0');
    expect(make({ responseTimeoutMs: 1.5 })).toThrow('responseTimeoutMs must be');
    expect(make({ idleTimeoutMs: 300_001 })).toThrow('idleTimeoutMs must be');
  });
});

describe('signals that arrive while a remote agent runs', () => {
  const named = { ...ndjson, 'signals-deliver-url': '/runs/1/signals?x=1' };

  /** A remote agent whose first answer stays open, and whose others are `statuses`, then 200. */
  async function open(statuses: readonly number[] = [], headers: Record<string, string> = named) {
    let answering: ServerResponse | undefined;
    remote = await startRemoteAgent((response, call) => {
      if (call > 1) response.writeHead(statuses[call - 2] ?? 200).end();
      else (answering = response.writeHead(200, headers)).write(one);
    });
    const given = agentRun();
    const running = run({ attempts: 2, headers: { authorization: 'Bearer x' } }, given);
    await until('it runs', () => answering !== undefined);
    return { given, running, answering: answering as ServerResponse };
  }

  it('are posted to where its answer says, in order, and are its own then', async () => {
    const { given, running, answering } = await open();
    given.arrivals.push(signal('a'));
    await until('it has the first', () => remote.seen.length === 2);
    given.arrivals.push(signal('b'));
    await until('it has the second', () => remote.seen.length === 3);
    answering.end(two);
    expect(await running).toEqual({ types: ['one', 'two'], failure: undefined });
    expect(remote.seen.slice(1)).toMatchObject(['a', 'b'].map(contents => ({
      url: '/runs/1/signals?x=1',
      headers: { authorization: 'Bearer x', 'signals-run-id': 'run-1', 'signals-fencing-token': '7' },
      body: { runId: 'run-1', thread: { threadId: 'thread-1' }, signals: [{ contents }] },
    })));
    expect(given.arrivals.taken.map(({ contents }) => contents)).toEqual(['a', 'b']);
  });

  it('wait for the next run from the first on that it does not take, so that their order is kept', async () => {
    const { given, running, answering } = await open([200, 409]);
    given.arrivals.push(signal('a'));
    await until('it has the first', () => remote.seen.length === 2);
    given.arrivals.push(signal('b'));
    await until('it was asked', () => remote.seen.length === 3);
    given.arrivals.push(signal('c'));
    answering.end();
    await running;
    expect(remote.seen).toHaveLength(3);
    expect(given.arrivals.taken.map(({ contents }) => contents)).toEqual(['a']);
    expect(given.arrivals.drain().map(({ contents }) => contents)).toEqual(['b', 'c']);
  });

  it('wait for the next run where it names no URL, and when they come after its end', async () => {
    const { given, running, answering } = await open([], ndjson);
    given.arrivals.push(signal('a'));
    answering.end();
    await running;
    given.arrivals.push(signal('b'));
    expect(remote.seen).toHaveLength(1);
    expect(given.arrivals.taken).toEqual([]);
  });

  it('that it took are not lost by asking it again', async () => {
    let posted = false;
    remote = await startRemoteAgent((response, call) => {
      if (call === 1) response.writeHead(200, named).flushHeaders();
      else response.writeHead(200).end(() => (posted = true));
    });
    const given = agentRun();
    const running = run({}, given);
    given.arrivals.push(signal('a'));
    await until('it has it', () => posted && given.arrivals.taken.length === 1);
    await remote.stop();
    expect((await running).failure).toMatchObject({ code: 'SIG_RUN_FAILED', message: expect.stringContaining('at try 1') as string });
    remote = await startRemoteAgent(() => {});
  });

  it('are not sent to strangers', async () => {
    remote = await startRemoteAgent(response => {
      response.writeHead(200, { ...ndjson, 'signals-deliver-url': 'http://example.org/' }).end(one);
    });
    expect((await run()).failure?.message).toContain('must be of the same origin');
  });
});
