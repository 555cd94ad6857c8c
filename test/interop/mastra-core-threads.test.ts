/**
 * Mastra's own thread runtime in two processes on our Redis backend: one thread is run in one process at a time, and what
 * the others are sent gets to that one. Where Mastra promises less than we do, a comment says so.
 */

import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { leaseKeyOf, notesKey, overlapsIn, readNotes, startPeer, streamKeyOf, threadKeyOf } from '../support/mastra/thread-peers.ts';
import type { ModelNote, Sent, ThreadPeer } from '../support/mastra/thread-peers.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const keyPrefix = 'interop';

let redis: RedisServer;
let client: Redis;
let a: ThreadPeer;
let b: ThreadPeer;
let lastThread = 0;

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  [a, b] = [start(), start()];
});

afterAll(async () => {
  await Promise.all([a.kill(), b.kill()]);
  client.disconnect();
  await redis.stop();
});

afterEach(async () => {
  await client.del(notesKey);
});

function start(env: Record<string, string> = {}): ThreadPeer {
  return startPeer({ url: redis.url, keyPrefix }, env);
}

/** Each test has threads of its own. */
const newThread = () => `thread-${++lastThread}`;
const newThreads = () => Array.from({ length: 20 }, newThread);
const textsOf = (thread: string, from: string, count: number) => Array.from({ length: count }, (_, n) => `${thread}/${from}-${n}`);
const ownerOf = (thread: string) => client.get(leaseKeyOf(keyPrefix, thread));
const isFree = (thread: string) => until(`${thread} has no owner`, async () => (await ownerOf(thread)) === null);
const starts = async () => (await readNotes(client)).filter(note => note.event === 'start');
const haveStarted = (count: number) => until(`${count} model calls`, async () => (await starts()).length >= count);
/** What no signal is called: a run that waits for it ends only when it is made to. */
const neverSent = 'never-sent';

/** Model calls whose process did not hold the lease from start to end, and owners that are of two processes. */
function unownedIn(notes: readonly ModelNote[]): string[] {
  const processes = new Map<string, number>();
  return notes.flatMap((note, at) => {
    const about = `${note.thread}: ${note.event} in ${note.process} under ${note.owner ?? 'no lease'}`;
    if (note.owner === undefined) return [about];
    const other = processes.get(note.owner) ?? note.process;
    processes.set(note.owner, note.process);
    const begun = notes.slice(0, at).findLast(earlier => earlier.thread === note.thread);
    return other !== note.process || (note.event === 'end' && begun?.owner !== note.owner) ? [about] : [];
  });
}

test('both are sent signals to the same threads at once: one runs each, and every signal gets to that run', async () => {
  const round = async (thread: string, name: string, [first, second]: readonly [ThreadPeer, ThreadPeer], raced: boolean) => {
    const [firsts, seconds] = [textsOf(thread, `${name}-first`, 3), textsOf(thread, `${name}-second`, 3)];
    // The run goes on until its process has them all: what arrives after its end, Mastra loses.
    const all = [...firsts, ...seconds];
    const one = first.send(thread, firsts, all);
    if (!raced) await one;
    const sent = (await Promise.all([one, second.send(thread, seconds, all)])).flat();
    await isFree(thread);
    return { sent, all };
  };
  const threads = newThreads();
  const outcomes = await Promise.all(
    threads.map(async (thread, n) => {
      const [one, other] = n % 2 === 0 ? ([a, b] as const) : ([b, a] as const);
      return [
        await round(thread, 'race', [one, other], true),
        await round(thread, 'mine', [one, other], false),
        await round(thread, 'yours', [other, one], false),
      ];
    }),
  );

  const notes = await readNotes(client);
  expect(overlapsIn(notes)).toEqual([]);
  expect(unownedIn(notes)).toEqual([]);
  for (const [n, rounds] of outcomes.entries()) {
    for (const { sent, all } of rounds) {
      expect(wakes(sent)).toHaveLength(1);
      expect(new Set(sent.map(({ runId }) => runId)).size).toBe(1);
      const calls = notes.filter(note => note.owner === sent[0]?.runId && note.event === 'start');
      expect([...(calls.at(-1)?.texts ?? [])].sort()).toEqual([...all].sort());
    }
    expect(new Set(notes.filter(note => note.thread === threads[n]).map(note => note.process))).toEqual(new Set([a.pid, b.pid]));
  }
});

test('both go for a thread in the moment in which its run has ended: it is never run by both', async () => {
  const [threads, times] = [newThreads(), 4];
  const keepSending = async (peer: ThreadPeer, from: string, thread: string): Promise<Sent[]> => {
    const sent: Sent[] = [];
    for (const text of textsOf(thread, from, times)) {
      sent.push(...(await peer.send(thread, [text])));
      await isFree(thread);
    }
    return sent;
  };
  const sent = await Promise.all(threads.flatMap(thread => [keepSending(a, 'a', thread), keepSending(b, 'b', thread)]));
  const notes = await readNotes(client);
  expect(overlapsIn(notes)).toEqual([]);
  expect(unownedIn(notes)).toEqual([]);
  const woke = wakes(sent.flat());
  expect(woke.length).toBeGreaterThanOrEqual(threads.length * times);
  // A signal that was handed over in the moment in which the run ended may be lost, by Mastra. What woke a run may not.
  const shown = new Set(notes.flatMap(note => note.texts));
  expect(woke.filter(({ text }) => !shown.has(text))).toEqual([]);
});

test('follow-up runs keep the lease: who asks for it all the time gets it after the last', async () => {
  const thread = newThread();
  const [queued, transfersBefore] = [textsOf(thread, 'queued', 3), await a.transfers()];
  await a.send(thread, [`${thread}/first`], queued);
  const intruder = new RedisLeaseProvider(client, new RedisKeys(keyPrefix));
  const won = (async () => {
    let answer = await intruder.acquireLease(threadKeyOf(thread), 'intruder', 60_000);
    for (; !answer.acquired; answer = await intruder.acquireLease(threadKeyOf(thread), 'intruder', 60_000));
    return await readNotes(client);
  })();
  expect((await a.queue(thread, queued)).map(({ action }) => action)).toEqual(['deliver', 'deliver', 'deliver']);
  const notes = await won;
  expect(notes.filter(note => note.event === 'end')).toHaveLength(1 + queued.length);
  expect(new Set(notes.map(note => note.owner)).size).toBe(1 + queued.length);
  expect(unownedIn(notes)).toEqual([]);
  expect((await a.transfers()) - transfersBefore).toBe(queued.length);
});

test('a process that is killed in the middle of a run: its thread is nobody’s until its lease has expired, then another’s', async () => {
  const [thread, ttlMs] = [newThread(), 3_000];
  const doomed = start({ MASTRA_AGENT_THREAD_LEASE_TTL_MS: String(ttlMs) });
  try {
    const [{ runId }] = (await doomed.send(thread, [`${thread}/first`], [neverSent])) as [Sent];
    await haveStarted(1);
    let leftMs = ttlMs;
    await until('the lease was renewed', async () => {
      const beforeMs = leftMs;
      leftMs = await client.pttl(leaseKeyOf(keyPrefix, thread));
      return leftMs > beforeMs;
    });
    expect(await ownerOf(thread)).toBe(runId);

    await doomed.kill();
    // Mastra hands it to the run that has died, and with that loses it.
    expect(await b.send(thread, [`${thread}/early`])).toEqual([{ text: `${thread}/early`, action: 'deliver', runId }]);
    expect(await starts()).toHaveLength(1);
    await isFree(thread);
    expect(await b.send(thread, [`${thread}/late`])).toMatchObject([{ action: 'wake' }]);
    await haveStarted(2);
    expect((await starts()).at(-1)).toMatchObject({ process: b.pid, texts: [`${thread}/late`] });
    await isFree(thread);
  } finally {
    await doomed.kill();
  }
});

test('a viewer in the other process sees the run as it goes, and may end it', async () => {
  const thread = newThread();
  await b.watch(thread);
  await a.send(thread, [`${thread}/first`]);
  await until('the viewer has seen the end', async () => (await b.seen(thread)).includes('finish'));
  expect(await b.seen(thread)).toContain(`answered ${thread}/first`);
  await isFree(thread);

  await a.send(thread, [`${thread}/second`], [neverSent]);
  await until('the viewer may abort it', () => b.abort(thread));
  await isFree(thread);
  await until('the viewer has seen the abort', async () => (await b.seen(thread)).at(-1) === 'abort');
  expect(overlapsIn(await readNotes(client))).toEqual([]);
});

test('a signal that another process puts on the stream in the original’s format gets to the run', async () => {
  const thread = newThread();
  const text = `${thread}/raw`;
  const [{ runId }] = (await a.send(thread, [`${thread}/first`], [text])) as [Sent];
  const createdAt = new Date().toISOString();
  const signal = { id: crypto.randomUUID(), type: 'user', contents: text, createdAt, acceptedAt: createdAt };
  const data = { type: 'signal-enqueued', runId, signal, sourceId: 'another-process' };
  const event = { type: data.type, runId, data, id: crypto.randomUUID(), createdAt };
  await client.xadd(streamKeyOf(keyPrefix, thread), '*', 'event', JSON.stringify(event));
  await isFree(thread);
  expect((await starts()).at(-1)?.texts).toEqual([`${thread}/first`, text]);
});

function wakes(sent: readonly Sent[]): Sent[] {
  return sent.filter(({ action }) => action === 'wake');
}
