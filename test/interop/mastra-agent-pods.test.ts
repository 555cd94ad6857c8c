/**
 * What a team that uses Mastra would run: their `Agent`, mounted as a module on three pods with one Redis, and the client SDK
 * talking to whichever pod. Only the model is a stand-in.
 */

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { MastraClient } from '@mastra/client-js';
import { createSignal } from '@mastra/core/signals';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import { threadLeaseKey } from '../../src/contracts/thread.ts';
import answerer, { notesKey } from '../support/agents/modules/answerer.ts';
import type { AnswererNote } from '../support/agents/modules/answerer.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const resourceId = 'user';
const patientMs = 90_000;

interface SeenChunk {
  type: string;
  runId?: string;
  from?: string;
  payload?: Record<string, unknown>;
}

interface View {
  seen: SeenChunk[];
  stop(): void;
}

let redis: RedisServer;
let client: Redis;
const pods: RuntimeProcess[] = [];
let views: View[] = [];
let lastThread = 0;

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  for (const name of ['a', 'b', 'c']) pods.push(await startPod(name));
}, 120_000);

afterEach(async () => {
  for (const view of views) view.stop();
  views = [];
  await client.del(notesKey);
});

afterAll(async () => {
  await Promise.all(pods.map(pod => pod.destroy()));
  client.disconnect();
  await redis.stop();
});

function startPod(name: string): Promise<RuntimeProcess> {
  return startRuntime({
    name,
    env: {
      REDIS_URL: redis.url,
      ANSWERER_REDIS_URL: redis.url,
      ANSWERER_WORK_MS: '20',
      AGENT_MODULE: join(import.meta.dirname, '../support/agents/modules/answerer.ts'),
      LOG_LEVEL: 'warn',
    },
  });
}

const newThread = () => `thread-${++lastThread}`;
const agentOn = (pod: RuntimeProcess | undefined) => new MastraClient({ baseUrl: pod!.url, retries: 0 }).getAgent('answerer');
const anyPod = () => pods[Math.floor(Math.random() * pods.length)];

async function watch(pod: RuntimeProcess | undefined, threadId: string): Promise<View> {
  const response = await agentOn(pod).subscribeToThread({ resourceId, threadId });
  const view: View = { seen: [], stop: () => response.unsubscribe() };
  views.push(view);
  // Ends with the stream; a stream that breaks early shows as chunks that are missing.
  response.processDataStream({ onChunk: chunk => void view.seen.push(chunk as SeenChunk) }).catch(() => {});
  return view;
}

const kinds = ['message', 'signal', 'turn'] as const;

function kindOf(text: string): string {
  return /\/(\w+)-/.exec(text)?.[1] ?? '';
}

/** By the call that is for its kind. Answers the pod's word on the run that has or will have it. */
async function send(threadId: string, text: string, pod = anyPod()): Promise<string | undefined> {
  const agent = agentOn(pod);
  const target = { resourceId, threadId };
  const kind = kindOf(text);
  const answer =
    kind === 'turn' ? await agent.queueMessage({ message: text, ...target })
    : kind === 'signal' ? await agent.sendSignal({ signal: { type: 'user', contents: text }, ...target })
    : await agent.sendMessage({ message: text, ...target });
  expect(answer.accepted).toBe(true);
  return answer.runId;
}

async function notes(): Promise<AnswererNote[]> {
  return (await client.lrange(notesKey, 0, -1)).map(row => JSON.parse(row) as AnswererNote);
}

const answersIn = (seen: readonly SeenChunk[]) => seen.flatMap(({ type, payload }) => (type === 'text-delta' ? [String(payload?.['text'])] : []));
const isFree = (threadId: string) =>
  until(`${threadId} has no owner`, async () => (await client.exists(`mastra:topic:lease:${threadLeaseKey({ resourceId, threadId })}`)) === 0, patientMs);

test('every message is answered exactly once, in order within its thread, by one pod at a time, and viewers on every pod see it', async () => {
  const threads = Array.from({ length: 8 }, newThread);
  const textsOf = (thread: string) => Array.from({ length: 12 }, (_, n) => `${thread}/${kinds[n % kinds.length]}-${n}`);
  const watched = await Promise.all(threads.map(thread => Promise.all(pods.map(pod => watch(pod, thread)))));
  await Promise.all(
    threads.map(async (thread, at) => {
      for (const [n, text] of textsOf(thread).entries()) {
        // The pod that a thread is woken on takes it: each pod gets some.
        await send(thread, text, n === 0 ? pods[at % pods.length] : anyPod());
        await sleep(Math.random() * 30); // so that some find a run that is on and some do not
      }
    }),
  );
  for (const [n, thread] of threads.entries()) {
    const [onA, ...others] = watched[n]!.map(({ seen }) => seen);
    await until(`${thread} is answered`, () => answersIn(onA!).length >= textsOf(thread).length, patientMs);
    await isFree(thread);
    await until(`all have seen the end of ${thread}`, () => [onA!, ...others].every(seen => seen.at(-1)?.type === 'finish' && seen.length === onA!.length), patientMs);
    for (const seen of others) expect(seen).toEqual(onA);
    // A message joins the run that is on, a turn waits for one of its own: each keeps its order.
    const answers = answersIn(onA!);
    expect(answers.toSorted()).toEqual(textsOf(thread).toSorted());
    const byTurn = (texts: readonly string[]) => Object.groupBy(texts, text => (kindOf(text) === 'turn' ? 'turns' : 'current'));
    expect(byTurn(answers)).toEqual(byTurn(textsOf(thread)));
    const turnRuns = onA!.filter(({ payload }) => kindOf(String(payload?.['text'])) === 'turn').map(({ runId }) => runId);
    expect(new Set(turnRuns).size).toBe(turnRuns.length);
  }

  const noted = await notes();
  expect(noted.filter(({ event }) => event === 'start').flatMap(({ texts }) => texts).toSorted()).toEqual(threads.flatMap(textsOf).toSorted());
  expect(overlapsIn(noted)).toEqual([]);
  expect(new Set(noted.map(note => note.process))).toEqual(new Set(pods.map(pod => pod.pid)));
});

/** Calls of the model that began before the one before them, on the same thread, had ended. */
function overlapsIn(noted: readonly AnswererNote[]): string[] {
  return [...Map.groupBy(noted, note => note.thread)].flatMap(([thread, rows]) =>
    rows.flatMap(({ event }, at) => (event === (at % 2 === 0 ? 'start' : 'end') ? [] : [`${thread}: ${event} at ${at}`])),
  );
}

test('chunks reach viewers on other pods as Mastra made them', async () => {
  const thread = newThread();
  const text = `${thread}/message-0`;
  const [, onB, onC] = await Promise.all(pods.map(pod => watch(pod, thread)));
  const { runId } = await agentOn(pods[0]).sendMessage({ message: text, resourceId, threadId: thread });
  for (const { seen } of [onB!, onC!]) await until('the run is seen to end', () => seen.at(-1)?.type === 'finish', patientMs);

  // The same agent, asked by itself in this process.
  const alone = await answerer.stream([createSignal({ type: 'user', contents: text })], { runId, memory: { thread, resource: resourceId } });
  const made: SeenChunk[] = [];
  for await (const chunk of alone.fullStream) made.push(JSON.parse(JSON.stringify(chunk)) as SeenChunk);
  expect(made.map(({ type }) => type)).toEqual([
    'start', 'data-user-message', 'step-start', 'text-start', 'text-delta', 'text-end', 'step-finish', 'finish',
  ]);
  for (const { seen } of [onB!, onC!]) {
    expect(seen.map(shapeOf)).toEqual(made.map(shapeOf));
    expect(seen.filter(({ type }) => type.startsWith('text-'))).toEqual(made.filter(({ type }) => type.startsWith('text-')));
  }
});

/** All names and kinds of value, at every depth; what differs from run to run (ids, times) is a value. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value !== 'object' || value === null) return typeof value;
  const entries = Object.entries(value as Record<string, unknown>);
  return Object.fromEntries(entries.map(([name, field]) => [name, name === 'type' || name === 'runId' ? field : shapeOf(field)] as const));
}

test('an abort from a third pod ends the run; what was sent after it is answered', async () => {
  const thread = newThread();
  const target = { resourceId, threadId: thread };
  const [, b, c] = pods;
  const onB = await watch(b, thread);
  const sent = await agentOn(pods[0]).sendMessage({ message: `${thread}/wait`, ...target });
  await until('the model is at work', async () => (await notes()).some(({ event }) => event === 'start'), patientMs);
  await agentOn(b).queueMessage({ message: `${thread}/turn-1`, ...target });

  expect(await agentOn(c).abortThread({ ...target, expectedRunId: 'another-run' })).toMatchObject({ aborted: false });
  expect(await agentOn(c).abortThread({ ...target, expectedRunId: sent.runId })).toMatchObject({ aborted: true, runId: sent.runId });
  const ofRun = () => onB.seen.filter(({ runId }) => runId === sent.runId);
  // Mastra's own end of an aborted stream.
  await until('the run is seen to end', () => ofRun().map(({ type }) => type).slice(-2).join() === 'abort,finish', patientMs);
  await until('the next turn is answered', () => answersIn(onB.seen).length > 0 && onB.seen.at(-1)?.type === 'finish', patientMs);
  await isFree(thread);
  expect(answersIn(onB.seen)).toEqual([`${thread}/turn-1`]);
  expect(answersIn(ofRun())).toEqual([]);
});
