/** Backends of the user's own: any PubSub in one process, any with leases over many. No mailbox of its own, and no Redis named. */

import { afterEach, expect, test } from 'vitest';

import { gateAt } from '../support/agents/gated-agent.ts';
import { startRedis } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const support = (file: string) => new URL(`../support/${file}`, import.meta.url).pathname;

async function start(name: string, env: Record<string, string>): Promise<RuntimeProcess> {
  const runtime = await startRuntime({ name, env });
  cleanups.push(() => runtime.destroy());
  return runtime;
}

interface Answer {
  action: string;
  owner: string;
  duplicate: boolean;
}

async function send(to: RuntimeProcess, agent: string, path: string, message: object): Promise<Answer> {
  const response = await fetch(`${to.url}/api/agents/${agent}/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ resourceId: 'ada', threadId: 't', message }),
  });
  expect(response.status).toBe(200);
  return (await response.json()) as Answer;
}

/** Resolves when it follows the thread; what it answers, when `text` was put out: all output until then. */
async function follow(on: RuntimeProcess, agent: string, text: string): Promise<() => Promise<string>> {
  const abort = new AbortController();
  cleanups.push(() => Promise.resolve(abort.abort()));
  const response = await fetch(`${on.url}/api/agents/${agent}/threads/subscribe`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify({ resourceId: 'ada', threadId: 't' }),
    signal: abort.signal,
  });
  return async () => {
    let output = '';
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      output += part;
      if (output.includes(text)) break;
    }
    return output;
  };
}

test.each([
  ["Mastra's own PubSub", 'mastra-emitter', false],
  ['one without leases, and says that it must stay alone', 'no-leases', true],
])('one process runs threads on %s', async (_what, backend, isWarned) => {
  const alone = await start('alone', { BACKEND_MODULE: support(`backends/${backend}.ts`) });
  expect(alone.logs().some(line => line.includes('"backend":"custom"'))).toBe(true);
  expect(alone.logs().some(line => line.includes('this backend has no leases'))).toBe(isWarned);
  const output = await follow(alone, 'echo', 'second');
  expect(await send(alone, 'echo', 'send-message', { id: '1', contents: 'first' })).toMatchObject({ action: 'wake', duplicate: false });
  expect(await send(alone, 'echo', 'send-message', { id: '1', contents: 'first' })).toMatchObject({ duplicate: true });
  await send(alone, 'echo', 'queue-message', { id: '2', contents: 'second' });
  expect(await output()).toMatch(/"first".*"second"/s);
  alone.kill('SIGTERM');
  expect(await alone.exited()).toBe(0);
});

test('many processes share threads on a PubSub with leases', async () => {
  const redis = await startRedis();
  cleanups.push(() => redis.stop());
  const gate = gateAt(redis.url);
  cleanups.push(() => gate.close());
  const env = {
    BACKEND_MODULE: support('backends/streams.ts'),
    STREAMS_REDIS_URL: redis.url,
    AGENT_MODULE: support('agents/gated-agent.ts'),
    GATE_REDIS_URL: redis.url,
  };
  const [a, b] = [await start('a', env), await start('b', env)];
  expect(a.logs().some(line => line.includes('this backend has no leases'))).toBe(false);
  expect((await send(a, 'gated', 'send-message', { id: '1', contents: 'first' })).owner).toMatch(/^a\./);
  await gate.entered('first');
  const queued = await send(b, 'gated', 'queue-message', { id: '2', contents: 'second' });
  expect(queued).toMatchObject({ action: 'deliver', owner: expect.stringMatching(/^a\./) as string });
  await gate.open();
  await gate.entered('second');
  for (const runtime of [a, b]) runtime.kill('SIGTERM');
  await until('both have gone', () => a.exitCode !== undefined && b.exitCode !== undefined);
  expect([a.exitCode, b.exitCode]).toEqual([0, 0]);
});

test('a module that is none, or one beside a Redis, stops the start with a line that says so', async () => {
  const started = async (env: Record<string, string>) => {
    const runtime = await startRuntime({ name: 'wrong', env, unready: true });
    cleanups.push(() => runtime.destroy());
    expect(await runtime.exited()).toBe(1);
    return runtime.stderr();
  };
  expect(await started({ BACKEND_MODULE: './no-such.mjs' })).toMatch(/SIG_BACKEND_MODULE_INVALID.*there is no file .*no-such\.mjs/);
  expect(await started({ BACKEND_MODULE: './x.mjs', REDIS_URL: 'redis://localhost' })).toContain(
    'BACKEND_MODULE must be no address of a Redis beside it',
  );
});
