/** What users get wrong, on the real process: each gets its clear error and code, and only a wrong start ends it. */

import { Redis } from 'ioredis';
import { afterEach, expect, test } from 'vitest';

import { freePort, startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

let redis: RedisServer | undefined;
let runtime: RuntimeProcess | undefined;

afterEach(async () => {
  await runtime?.destroy();
  await redis?.stop();
  runtime = undefined;
  redis = undefined;
});

async function post(path: string, body: string | object) {
  const response = await fetch(`${runtime!.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as ErrorBody };
}

interface ErrorBody {
  error: { code: string; message: string; retryable: boolean };
}

const message = { message: 'hello', resourceId: 'user', threadId: 'thread' };

test('a wrong REDIS_URL stops the start with one line that names it and hides the password', async () => {
  runtime = await startRuntime({ name: 'wrong', env: { REDIS_URL: 'http://user:hunter2@localhost:6379' }, unready: true });
  expect(await runtime.exited()).toBe(1);
  expect(runtime.stderr()).toMatch(/SIG_SETTINGS_INVALID/);
  expect(runtime.stderr()).toMatch(/REDIS_URL.*redis:\/\//);
  expect(runtime.stderr()).not.toContain('hunter2');
});

test('lease settings that contradict each other stop the start', async () => {
  const env = { MASTRA_AGENT_THREAD_LEASE_TTL_MS: '5000', MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS: '9000' };
  runtime = await startRuntime({ name: 'wrong', env, unready: true });
  expect(await runtime.exited()).toBe(1);
  expect(runtime.stderr()).toMatch(/MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS.*9000/);
});

test('with Redis down at the start the process lives, says so, and goes on by itself when Redis is there', async () => {
  const port = await freePort();
  runtime = await startRuntime({ name: 'early', env: { REDIS_URL: `redis://127.0.0.1:${port}` }, unready: true });
  await until('it answers', () => fetch(`${runtime!.url}/livez`).then(response => response.ok, () => false));
  expect((await fetch(`${runtime.url}/readyz`)).status).toBe(503);
  const refused = await post('/api/agents/echo/send-message', message);
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(refused.body.error).toMatchObject({ code: 'SIG_STORE_UNAVAILABLE', retryable: true });

  redis = await startRedis({ port });
  await until('it is ready', () => fetch(`${runtime!.url}/readyz`).then(response => response.ok));
  expect((await post('/api/agents/echo/send-message', message)).status).toBe(200);
});

test('data written with another number of partitions stops the start', async () => {
  redis = await startRedis();
  const client = new Redis(redis.url);
  await client.set('mastra:topic:partitions', '32');
  client.disconnect();
  runtime = await startRuntime({ name: 'other', env: { REDIS_URL: redis.url }, unready: true });
  expect(await runtime.exited()).toBe(1);
  expect(runtime.stderr()).toMatch(/SIG_STORE_INCOMPATIBLE.*32.*64/);
});

test('wrong requests get their code, name the field, and the process goes on', async () => {
  redis = await startRedis();
  runtime = await startRuntime({ name: 'good', env: { REDIS_URL: redis.url, BODY_LIMIT_BYTES: '4096', SIGNAL_MAX_BYTES: '1024' } });
  const path = '/api/agents/echo/send-message';
  expect(await post('/api/agents/nobody/send-message', message)).toMatchObject({
    status: 404,
    body: { error: { code: 'SIG_AGENT_UNKNOWN', message: expect.stringContaining('echo') as string } },
  });
  expect(await post(path, '{"message": ')).toMatchObject({ status: 400, body: { error: { code: 'SIG_REQUEST_MALFORMED' } } });
  expect(await post(path, { ...message, message: 'x'.repeat(5000) })).toMatchObject({
    status: 413,
    body: { error: { code: 'SIG_REQUEST_TOO_LARGE' } },
  });
  expect(await post(path, { ...message, message: 'x'.repeat(2000) })).toMatchObject({
    status: 413,
    body: { error: { code: 'SIG_SIGNAL_TOO_LARGE', message: expect.stringContaining('1024') as string } },
  });
  expect(await post(path, { ...message, threadId: '' })).toMatchObject({
    status: 400,
    body: { error: { code: 'SIG_REQUEST_INVALID', message: expect.stringContaining('threadId') as string } },
  });
  expect(await post('/api/nowhere', {})).toMatchObject({ status: 404, body: { error: { code: 'SIG_ROUTE_UNKNOWN' } } });
  expect((await post(path, message)).status).toBe(200);
  expect((await fetch(`${runtime.metricsUrl}/metrics`).then(response => response.text()))).toContain('signals_route_decisions_total');
});
