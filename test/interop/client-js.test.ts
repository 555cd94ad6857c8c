/**
 * The main job with the real client SDK: two processes of the runtime on one real Redis, signals to either at random,
 * viewers on both, and a process that goes away in the middle.
 */

import { join } from 'node:path';

import { MastraClient } from '@mastra/client-js';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { readRecords, reportOn } from '../support/run-history.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const threadCount = 200;
const signalsPerThread = 20;
/** Threads that are sent to at the same time: bounds the load. */
const senders = 16;

const threads = Array.from({ length: threadCount }, (_, n) => `thread-${n}`);
const texts = Array.from({ length: signalsPerThread }, (_, n) => `signal ${n}`);

let redis: RedisServer;
let processes: RuntimeProcess[] = [];
let live: RuntimeProcess[] = [];

beforeEach(async () => {
  redis = await startRedis();
});

afterEach(async () => {
  await Promise.all(processes.map(process => process.destroy()));
  processes = [];
  live = [];
  await redis.stop();
});

async function start(name: string): Promise<RuntimeProcess> {
  const runtime = await startRuntime({
    name,
    env: {
      REDIS_URL: redis.url,
      RECORD_REDIS_URL: redis.url,
      RECORD_WORK_MS: '2',
      AGENT_MODULE: join(import.meta.dirname, '../support/agents/recording-agent.ts'),
      LOG_LEVEL: 'warn',
      MASTRA_AGENT_THREAD_LEASE_TTL_MS: '3000',
    },
  });
  processes.push(runtime);
  live.push(runtime);
  return runtime;
}

function agentOf(process: RuntimeProcess) {
  return new MastraClient({ baseUrl: process.url, retries: 0 }).getAgent('recorder');
}

/** Sends to a live process at random; what fails is sent again with the same id, as a client that lost the answer does. */
async function send(threadId: string, text: string): Promise<void> {
  const signal = { id: `${threadId}:${text}`, type: 'user' as const, contents: text };
  await until(
    `${threadId} took ${text}`,
    async () => {
      const process = live[Math.floor(Math.random() * live.length)]!;
      const target = { resourceId: 'user', threadId, ifIdle: { behavior: 'wake' as const } };
      return await agentOf(process).sendSignal({ signal, ...target }).then(answer => answer.accepted, () => false);
    },
    60_000,
  );
}

/** All signals of a thread in order, many threads at once. `onProgress` hears how many were accepted. */
async function sendAll(onProgress: (accepted: number) => void = () => {}): Promise<void> {
  const queue = [...threads];
  let accepted = 0;
  const sender = async () => {
    for (let threadId = queue.shift(); threadId !== undefined; threadId = queue.shift()) {
      for (const text of texts) {
        await send(threadId, text);
        onProgress(++accepted);
      }
    }
  };
  await Promise.all(Array.from({ length: senders }, sender));
}

async function allHaveRun(): Promise<void> {
  await until(
    'every signal has run',
    async () => {
      const { firstRuns } = reportOn(await readRecords(redis.url));
      const run = [...firstRuns.values()].reduce((sum, list) => sum + list.length, 0);
      return run === threadCount * signalsPerThread;
    },
    90_000,
    250,
  );
}

test('every signal runs exactly once, in order, on one process at a time, and viewers on both see the same', async () => {
  const [a, b] = [await start('a'), await start('b')];
  const views = await Promise.all([a, b].map(process => Promise.all(threads.map(thread => view(process, thread)))));
  await sendAll();
  await allHaveRun();
  const report = reportOn(await readRecords(redis.url));
  for (const thread of threads) expect(report.firstRuns.get(thread)).toEqual(texts);
  expect(report).toMatchObject({ repeated: [], overlaps: [], tokenSteps: [] });

  const [onA, onB] = views as [View[], View[]];
  await until('all viewers have seen the last signal', () => [...onA, ...onB].every(({ seen }) => seen.filter(isText).length === signalsPerThread));
  for (const [n, viewer] of onA.entries()) {
    expect(viewer.seen.filter(isText).map(textOf)).toEqual(texts);
    await until('both have the last chunk', () => viewer.seen.at(-1)?.type === 'finish' && onB[n]!.seen.length === viewer.seen.length);
    expect(onB[n]!.seen).toEqual(viewer.seen);
  }
  for (const viewer of [...onA, ...onB]) viewer.stop();
  const owners = new Set((await readRecords(redis.url)).map(record => record.process));
  expect(owners).toEqual(new Set([a.pid, b.pid]));
});

test('a process that is told to stop loses nothing and runs nothing twice', async () => {
  const [a] = [await start('a'), await start('b')];
  let stopping: Promise<unknown> | undefined;
  await sendAll(accepted => {
    if (accepted !== (threadCount * signalsPerThread) / 2) return;
    live = live.filter(process => process !== a);
    a.kill('SIGTERM');
    stopping = start('c');
  });
  await stopping;
  await allHaveRun();
  expect(await a.exited()).toBe(0);
  const report = reportOn(await readRecords(redis.url));
  for (const thread of threads) expect(report.firstRuns.get(thread)).toEqual(texts);
  expect(report).toMatchObject({ repeated: [], overlaps: [], tokenSteps: [] });
});

test('a process that is killed loses nothing; what was in flight may run again, counted, under a higher token', async () => {
  const [a] = [await start('a'), await start('b')];
  await sendAll(accepted => {
    if (accepted !== (threadCount * signalsPerThread) / 2) return;
    a.kill('SIGKILL');
    live = live.filter(process => process !== a);
  });
  await allHaveRun();
  const report = reportOn(await readRecords(redis.url), new Set([a.pid]));
  for (const thread of threads) expect(report.firstRuns.get(thread)).toEqual(texts);
  expect(report).toMatchObject({ overlaps: [], tokenSteps: [], uncountedRepeats: [] });
});

interface SeenChunk {
  type: string;
  runId?: string;
  payload?: { text?: string };
}

interface View {
  seen: SeenChunk[];
  stop(): void;
}

async function view(process: RuntimeProcess, threadId: string): Promise<View> {
  const response = await agentOf(process).subscribeToThread({ resourceId: 'user', threadId });
  const seen: SeenChunk[] = [];
  // Ends with the stream; a stream that breaks early shows as chunks that are missing.
  response.processDataStream({ onChunk: chunk => void seen.push(chunk as SeenChunk) }).catch(() => {});
  return { seen, stop: () => response.unsubscribe() };
}

function isText(chunk: SeenChunk): boolean {
  return chunk.type === 'text-delta';
}

function textOf(chunk: SeenChunk): string | undefined {
  return chunk.payload?.text;
}
