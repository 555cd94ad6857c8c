/** `REDIS_REPLICA_ACKS`: what only the primary has does not count, on the real process. */

import { afterEach, expect, test } from 'vitest';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

let servers: RedisServer[] = [];
let runtime: RuntimeProcess | undefined;

afterEach(async () => {
  await runtime?.destroy();
  await Promise.all(servers.map(server => server.stop()));
  servers = [];
});

async function send(id: string) {
  const response = await fetch(`${runtime!.url}/api/agents/echo/signals`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ resourceId: 'user', threadId: 'thread', signal: { id, type: 'user', contents: 'hello' } }),
  });
  return { status: response.status, body: (await response.json()) as { error?: { code: string }; action?: string } };
}

async function runs(): Promise<number> {
  const text = await fetch(`${runtime!.metricsUrl}/metrics`).then(response => response.text());
  return Number(/signals_run_duration_seconds_count\{end_reason="finished"\} (\d+)/.exec(text)?.[1] ?? 0);
}

test('without its replica a signal is not accepted and nothing runs; with it, it is, once', async () => {
  const primary = await startRedis({ config: ['repl-diskless-sync-delay 0'] });
  servers.push(primary);
  const env = { REDIS_URL: primary.url, REDIS_REPLICA_ACKS: '1', MASTRA_AGENT_THREAD_LEASE_SWEEP_INTERVAL_MS: '60000' };
  runtime = await startRuntime({ name: 'a', env });
  expect(await send('s')).toMatchObject({ status: 503, body: { error: { code: 'SIG_STORE_UNAVAILABLE' } } });
  expect(await runs()).toBe(0);

  servers.push(await startRedis({ config: [`replicaof 127.0.0.1 ${primary.port}`] }));
  await until('the signal is accepted', async () => (await send('s')).status === 200);
  expect(await send('next')).toMatchObject({ status: 200 });
  await until('it ran', async () => (await runs()) >= 1);
  expect(runtime.logs().some(line => line.includes('replica'))).toBe(true);
});
