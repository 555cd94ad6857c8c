/**
 * 5,000 runs with 1 MB prompts: the store kept what had been worked off, and the pod kept what it had handed on, until one of
 * them ran out of memory. Here a few hundred; `MEMORY_RUNS=5000` for the whole case.
 */

import { readFileSync } from 'node:fs';

import { MastraClient } from '@mastra/client-js';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const mib = 1024 * 1024;
const runs = Number(process.env['MEMORY_RUNS'] ?? 300);
const threads = ['a', 'b', 'c', 'd'];
/** Until the collector has found the size that it keeps to. */
const warmUp = 100;

/** If prompts were kept it would be a third of `runs` MiB. After the warm-up the collector still takes up to 25 MiB more. */
const mostGrowth = 60 * mib;
/** What fences, channels and buffers of connections may have come to. */
const mostLeft = 2 * mib;
/** Prompts that wait, and copies of them on their way in and out. */
const mostAtOnce = threads.length * 8 * mib;

let redis: RedisServer;
let client: Redis;
let pod: RuntimeProcess;

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  pod = await startRuntime({
    name: 'pod',
    env: {
      REDIS_URL: redis.url,
      AGENT_MODULE: new URL('../support/agents/measuring-agent.ts', import.meta.url).pathname,
      LOG_LEVEL: 'warn',
      SIGNAL_MAX_BYTES: String(2 * mib),
      BODY_LIMIT_BYTES: String(2 * mib),
      OUTPUT_RETENTION_MS: '15000',
      DEDUPE_WINDOW_MS: '1000',
      // As in a pod with a memory limit: without one garbage is let lie.
      NODE_OPTIONS: '--max-old-space-size=128',
    },
  });
});

afterAll(async () => {
  await pod.destroy();
  client.disconnect();
  await redis.stop();
});

async function storeUse(): Promise<{ used: number; peak: number }> {
  const info = await client.info('memory');
  const value = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1]);
  return { used: value('used_memory'), peak: value('used_memory_peak') };
}

/** Nothing of any thread is left: what retention asks for was kept for as long as it asks. */
async function forgotten(): Promise<void> {
  await until('all threads are forgotten', async () => (await client.keys('*:{p*}:*')).length === 0, 60_000);
}

function podUse(): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pod.pid}/status`, 'utf8'))?.[1]) * 1024;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

interface Measured {
  type: string;
  payload?: { length?: number };
}

/** Sends prompts to a thread, each when the run of the one before has put out what it saw. */
async function talk(threadId: string, count: number, onRun: () => void): Promise<void> {
  const agent = new MastraClient({ baseUrl: pod.url, retries: 0 }).getAgent('measurer');
  const target = { resourceId: 'user', threadId };
  const lengths: (number | undefined)[] = [];
  const view = await agent.subscribeToThread(target);
  const onChunk = (chunk: unknown) => {
    const { type, payload } = chunk as Measured;
    if (type === 'measured') lengths.push(payload?.length);
  };
  // A stream that breaks shows as a run that is waited for in vain.
  view.processDataStream({ onChunk }).catch(() => {});
  for (let n = 1; n <= count; n++) {
    // No two are alike, so that nothing can be shared.
    await agent.queueMessage({ message: `${threadId} ${n} `.padEnd(mib, String.fromCharCode(97 + (n % 26))), ...target });
    await until(`run ${n} of ${threadId}`, () => lengths.length === n, 60_000, 2);
    onRun();
  }
  view.unsubscribe();
  expect(lengths).toEqual(Array.from({ length: count }, () => mib));
}

const talkOnAll = (count: number, onRun = () => {}) => Promise.all(threads.map(thread => talk(thread, count / threads.length, onRun)));

test(`after ${runs} runs with 1 MiB prompts the store has what it had before, and the pod has not grown`, { timeout: 120_000 + runs * 500 }, async () => {
  await talkOnAll(warmUp);
  await forgotten();
  await until('buffers are given back', async () => (await storeUse()).used < 4 * mib);
  const before = await storeUse();

  const samples: number[] = [];
  await talkOnAll(runs, () => void samples.push(podUse()));
  expect((await storeUse()).peak - before.used).toBeLessThan(mostAtOnce);
  const third = Math.floor(samples.length / 3);
  expect(median(samples.slice(-third)) - median(samples.slice(third, 2 * third))).toBeLessThan(mostGrowth);

  await forgotten();
  await until('the store has what it had before', async () => (await storeUse()).used - before.used < mostLeft);
});
