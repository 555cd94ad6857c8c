/** One step of a stop that never ends must not keep the next from being done, nor the process from exiting. */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

let redis: RedisServer;
let runtime: RuntimeProcess | undefined;
beforeEach(async () => {
  redis = await startRedis();
});
afterEach(async () => {
  await runtime?.destroy();
  await redis.stop();
});

test('a backend that answers nothing any more once its process is told to stop', async () => {
  const module = new URL('../support/backends/hangs-at-the-end.ts', import.meta.url).pathname;
  runtime = await startRuntime({ name: 'a', env: { BACKEND_MODULE: module, STREAMS_REDIS_URL: redis.url } });
  runtime.kill('SIGTERM');
  await until('it has gone', () => runtime?.exitCode !== undefined);
  expect(runtime.exitCode).toBe(0);
  // It was held up, or this test shows nothing.
  expect(runtime.logs().filter(line => line.includes('a step of the stop failed')).length).toBeGreaterThan(0);
});
