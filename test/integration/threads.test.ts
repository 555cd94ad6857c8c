/** Threads on a real Redis, two instances in one process: what the runtime does without HTTP around it. */

import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

import type { Agent, AgentLookup } from '../../src/contracts/agent.ts';
import { silentObserver } from '../../src/contracts/observer.ts';
import type { MailboxLimits } from '../../src/contracts/thread-mailbox.ts';
import { threadLeaseKey } from '../../src/contracts/thread.ts';
import type { ThreadRef } from '../../src/contracts/thread.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { LeaseKeeper } from '../../src/leases/lease-keeper.ts';
import { RedisBackend } from '../../src/redis/backend.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { OwnedThreads } from '../../src/threads/owned-threads.ts';
import { SignalRouter } from '../../src/threads/signal-router.ts';
import { Sweeper } from '../../src/threads/sweeper.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const limits: MailboxLimits = {
  maxEntries: 100,
  maxBytes: 1_000_000,
  signalMaxBytes: 10_000,
  dedupeWindowMs: 60_000,
  outputMaxChunks: 1000,
  outputRetentionMs: 60_000,
  maxDeliveryAttempts: 3,
};
const lease = { ttlMs: 1500, renewIntervalMs: 400, driftMs: 50 };

let redis: RedisServer;
let instances: Instance[] = [];

interface Instance {
  id: string;
  router: SignalRouter;
  owned: OwnedThreads;
  sweeper: Sweeper;
  keeper: LeaseKeeper;
  backend: RedisBackend;
  /** Gone as if by SIGKILL: connections cut, nothing released. */
  die(): Promise<void>;
}

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(async () => {
  const client = new Redis(redis.url);
  await client.flushall();
  client.disconnect();
});
afterEach(async () => {
  await Promise.all(instances.map(instance => instance.die()));
  instances = [];
});

async function startInstance(id: string, agent: Agent, settings = () => lease): Promise<Instance> {
  const backend = new RedisBackend({ source: { url: redis.url }, keyPrefix: 'test', limits });
  await backend.connect();
  const agents: AgentLookup = { get: agentId => ({ id: agentId, name: agentId, run: agent }) };
  const clock = systemClock;
  const observer = silentObserver;
  const logger = silentLogger;
  const { mailbox } = backend;
  const keeper = new LeaseKeeper({ provider: backend.leases, settings, clock });
  const context = { instanceId: id, mailbox, keeper, agents, settings, clock, observer, logger };
  const owned = new OwnedThreads(context, 100);
  const sweeper = new Sweeper({ mailbox, owned, intervalMs: () => 100, clock, logger });
  const { operations } = backend;
  const router = new SignalRouter({ mailbox, owned, sweeper, operations, agents, clock, observer, logger });
  await mailbox.listen(id, router);
  sweeper.start();
  const die = async () => {
    const stopped = sweeper.stop();
    keeper.close();
    await backend.close(0);
    await stopped;
  };
  const instance = { id, router, owned, sweeper, keeper, backend, die };
  instances.push(instance);
  return instance;
}

function message(thread: ThreadRef, text: string, turn: 'current' | 'next' = 'current') {
  return { agentId: 'a', target: { thread }, signal: { type: 'user', contents: text }, turn } as const;
}

/** An agent that notes what it was given; `hold` keeps every run open until it is called. */
function recorder() {
  const seen: string[] = [];
  let active = 0;
  let mostActive = 0;
  let open = () => {};
  const gate = { wait: Promise.resolve() };
  const agent: Agent = async function* (run) {
    active++;
    mostActive = Math.max(mostActive, active);
    try {
      for (const signal of run.signals) seen.push(String(signal.contents));
      yield { type: 'start', runId: run.runId };
      await Promise.race([gate.wait, new Promise(resolve => run.abortSignal.addEventListener('abort', resolve))]);
      run.abortSignal.throwIfAborted();
      for (const signal of run.arrivals.drain()) seen.push(String(signal.contents));
    } finally {
      active--;
    }
  };
  return {
    agent,
    seen,
    get mostActive() {
      return mostActive;
    },
    hold: () => {
      gate.wait = new Promise(resolve => (open = resolve));
    },
    release: () => open(),
  };
}

const thread = { resourceId: 'user-1', threadId: 'thread-1' };

/** Every owner that the thread's lease had, as the server's own notifications tell it; `undefined` for none. */
function watchOwner() {
  const client = new Redis(redis.url);
  const watcher = new Redis(redis.url);
  const { lease: key } = new RedisKeys('test').lease(threadLeaseKey(thread));
  const seen: (string | undefined)[] = [];
  const note = (owner: string | null) => {
    const instance = owner?.split('/')[0];
    if (seen.length === 0 || seen.at(-1) !== instance) seen.push(instance);
  };
  const ready = (async () => {
    note(await client.get(key));
    await client.config('SET', 'notify-keyspace-events', 'Kg$x');
    await watcher.subscribe(`__keyspace@0__:${key}`);
  })();
  watcher.on('message', (_channel: string, event: string) => {
    if (event === 'del' || event === 'expired') note(null);
    else if (event === 'set') void client.get(key).then(note);
  });
  return {
    ready,
    async stop() {
      await until('the lease has ended', () => seen.at(-1) === undefined);
      client.disconnect();
      watcher.disconnect();
      return seen;
    },
  };
}

test('signals sent to two instances run once, in order, on one owner at a time', async () => {
  const log = recorder();
  const a = await startInstance('a', log.agent);
  const b = await startInstance('b', log.agent);
  for (let n = 0; n < 40; n++) await (n % 2 ? a : b).router.send(message(thread, `m${n}`));
  await until('all have run', () => log.seen.length >= 40);
  expect(log.seen).toEqual(Array.from({ length: 40 }, (_, n) => `m${n}`));
  expect(log.mostActive).toBe(1);
});

test('queued turns run one after the other, and a message joins the run that is on', async () => {
  const log = recorder();
  log.hold();
  const a = await startInstance('a', log.agent);
  const b = await startInstance('b', log.agent);
  expect((await a.router.send(message(thread, 'first'))).action).toBe('wake');
  await until('the run is on', () => log.seen.length === 1);
  expect((await b.router.send(message(thread, 'turn 1', 'next'))).action).toBe('deliver');
  await b.router.send(message(thread, 'turn 2', 'next'));
  const joined = await b.router.send(message(thread, 'into the run'));
  expect(joined.owner).toMatch(/^a\//);
  log.release();
  await until('all have run', () => log.seen.length === 4);
  expect(log.seen.filter(text => text.startsWith('turn'))).toEqual(['turn 1', 'turn 2']);
  await until('the lease is released', async () => (await a.router.inspect(thread)).owner === undefined);
});

test('a dead owner is followed by a peer, with its signals, a higher token and a higher attempt', async () => {
  const log = recorder();
  log.hold();
  const a = await startInstance('a', log.agent);
  const first = await a.router.send(message(thread, 'hello'));
  await until('the run is on', () => log.seen.length === 1);
  const attempts: number[] = [];
  const tokens: number[] = [];
  await startInstance('b', async function* (run) {
    attempts.push(run.attempt);
    tokens.push(run.fencingToken ?? 0);
    yield { type: 'finish' };
  });
  await a.die();
  await until('b ran it', () => attempts.length === 1);
  expect(attempts).toEqual([2]);
  expect(tokens[0]).toBeGreaterThan(first.fencingToken ?? Infinity);
});

test('an abort at one instance stops the run on the other and ends with its chunk', async () => {
  const log = recorder();
  log.hold();
  const a = await startInstance('a', log.agent);
  const b = await startInstance('b', log.agent);
  const stop = new AbortController();
  const output = await b.router.follow(thread, stop.signal);
  const types: string[] = [];
  const reading = (async () => {
    for await (const { chunk } of output) types.push(chunk.type);
  })();
  await a.router.send(message(thread, 'hello'));
  await until('the run is on', () => log.seen.length === 1);
  expect((await b.router.abort(thread)).aborted).toBe(true);
  await until('the terminal chunk came', () => types.includes('abort'));
  expect(types).toEqual(['start', 'abort']);
  stop.abort();
  await reading;
});

test('what a drain leaves goes to a peer at once, and the thread is never without an owner', async () => {
  const log = recorder();
  log.hold();
  const a = await startInstance('a', log.agent);
  await a.router.send(message(thread, 'first'));
  await until('the run is on', () => log.seen.length === 1);
  const other = recorder();
  await startInstance('b', other.agent);
  await a.router.send(message(thread, 'second', 'next'));
  const owners = watchOwner();
  await owners.ready;
  const drained = a.owned.drain(5000, 1000);
  log.release();
  expect(await drained).toEqual({ stopped: 0, abandoned: 0 });
  await until('b ran the rest', () => other.seen.length === 1);
  expect(other.seen).toEqual(['second']);
  // From one to the other without ever being nobody's.
  expect(await owners.stop()).toEqual(['a', 'b', undefined]);
});

test('a run that a drain cuts short is run again by a peer', async () => {
  const log = recorder();
  log.hold();
  const a = await startInstance('a', log.agent);
  await a.router.send(message(thread, 'first'));
  await until('the run is on', () => log.seen.length === 1);
  const other = recorder();
  await startInstance('b', other.agent);
  expect(await a.owned.drain(0, 5000)).toEqual({ stopped: 1, abandoned: 0 });
  await until('b ran it', () => other.seen.length === 1);
});

test('a lease whose answer came too late is given back, and a peer need not wait for its end', async () => {
  const log = recorder();
  // To this one every answer comes too late: the allowance is larger than what it asks for.
  const late = await startInstance('late', log.agent, () => ({ ttlMs: 600_000, renewIntervalMs: 400, driftMs: 700_000 }));
  const other = recorder();
  await late.router.send(message(thread, 'hello'));
  await late.sweeper.stop();
  await startInstance('b', other.agent);
  await until('b ran it', () => other.seen.length === 1);
  expect(log.seen).toEqual([]);
});

test('a wake costs two round trips to Redis before the agent starts', async () => {
  const marker = new Redis(redis.url);
  const watcher = await new Redis(redis.url).monitor();
  const commands: string[] = [];
  watcher.on('monitor', (_time: string, args: string[], source: string) => {
    if (source !== 'lua') commands.push(args.slice(0, 2).join(' '));
  });
  const a = await startInstance('a', async function* () {
    await marker.echo('the agent started'); // what the server did before is before it in the log
    yield { type: 'finish' };
  });
  await a.sweeper.stop();
  // The first run loads the scripts; the second is the one that counts.
  for (const [threadId, start] of [['warm-up', 'warming up'], ['counted', 'counting']] as const) {
    await marker.echo(start);
    await a.router.send(message({ ...thread, threadId }, 'hello'));
    await until('it ran', () => a.owned.size === 0);
  }
  const isLogged = (text: string, times: number) => commands.filter(command => command === `echo ${text}`).length === times;
  await until('the log is complete', () => isLogged('the agent started', 2));
  watcher.disconnect();
  marker.disconnect();
  const counted = commands.slice(commands.indexOf('echo counting') + 1, commands.lastIndexOf('echo the agent started'));
  expect(counted).toHaveLength(2);
  expect(counted.map(command => command.split(' ')[0])).toEqual(['evalsha', 'evalsha']);
});
