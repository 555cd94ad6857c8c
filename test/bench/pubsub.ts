/**
 * Our RedisStreamsPubSub beside the original's approach: latency at 1,000 events a second, then the time to work off a
 * backlog, idle CPU, connections and memory, for 1, 1,000 and 10,000 topics with one consumer group each.
 *
 * Both sides run in a process of their own against the same server, one after the other, and get the same bytes from
 * this process. For the backlog they are stopped while it is written, so that writing it costs them nothing.
 *
 * Arguments: `--rounds N` (default 5), `--topics 1,1000,10000`, `--drain N` events.
 */

import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { Redis } from 'ioredis';

import { startRedis } from '../support/redis-server.ts';
import { clockUs } from './pubsub-consumer.ts';
import type { Handled, Request, Usage } from './pubsub-consumer.ts';
import { compared, limited, median, percentile, report } from './report.ts';
import type { BenchResult } from './report.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    topics: { type: 'string', default: '1,1000,10000' },
    drain: { type: 'string', default: '60000' },
  },
});
const rounds = Number(values.rounds);
const drainEvents = Number(values.drain);
const pacedMs = 3000;
const pacedPerMs = 1;
const idleMs = 5000;

interface Measured {
  p50Us: number;
  p99Us: number;
  drainPerS: number;
  connections: number;
  bytesPerSubscription: number;
  idleClientPercent: number;
  idleServerPercent: number;
  clientUsPerEvent: number;
  serverUsPerEvent: number;
}

class Consumer {
  readonly #child: ChildProcess;

  constructor(kind: 'ours' | 'theirs', url: string) {
    this.#child = fork(join(import.meta.dirname, 'pubsub-consumer.ts'), [kind, url]);
    // Without it there is nothing to wait for.
    this.#child.on('exit', code => {
      if (code !== 0) throw new Error(`the process of ${kind} ended with ${code}`);
    });
  }

  async ask<T>(request: Request): Promise<T> {
    const answer = once(this.#child, 'message');
    this.#child.send(request);
    return (await answer)[0] as T;
  }

  async answer<T>(): Promise<T> {
    return (await once(this.#child, 'message'))[0] as T;
  }

  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  resume(): void {
    this.#child.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    const gone = once(this.#child, 'exit');
    this.#child.send({ ask: 'close' } satisfies Request);
    await gone;
  }
}

function entry(topics: number, n: number): [key: string, json: string] {
  const event = {
    type: 'bench',
    id: randomUUID(),
    data: { n, text: 'x'.repeat(100), sentUs: clockUs() },
    runId: 'run',
    createdAt: new Date().toISOString(),
    deliveryAttempt: 1,
  };
  // Not round robin: a reader must not be able to profit from the order.
  const topic = topics === 1 ? 0 : Math.floor(Math.random() * topics);
  return [`mastra:topic:t${topic}`, JSON.stringify(event)];
}

async function publishPaced(redis: Redis, topics: number): Promise<number> {
  const startMs = performance.now();
  let sent = 0;
  for (;;) {
    const elapsedMs = performance.now() - startMs;
    const due = Math.min(pacedMs, Math.floor(elapsedMs)) * pacedPerMs;
    for (; sent < due; sent++) {
      const [key, json] = entry(topics, sent);
      redis.xadd(key, '*', 'event', json).catch(() => {});
    }
    if (elapsedMs >= pacedMs) return sent;
    await new Promise(resolve => setTimeout(resolve, 1));
  }
}

async function publishBacklog(redis: Redis, topics: number): Promise<void> {
  for (let sent = 0; sent < drainEvents; ) {
    const pipeline = redis.pipeline();
    for (let at = 0; at < 500 && sent < drainEvents; at++, sent++) {
      const [key, json] = entry(topics, sent);
      pipeline.xadd(key, '*', 'event', json);
    }
    await pipeline.exec();
  }
}

async function serverCpuMs(redis: Redis): Promise<number> {
  const info = await redis.info('cpu');
  const value = (name: string) => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1]);
  return (value('used_cpu_sys') + value('used_cpu_user')) * 1000;
}

async function measure(kind: 'ours' | 'theirs', topics: number): Promise<Measured> {
  const server = await startRedis({ config: ['maxclients 15000'] });
  running.add(server);
  const redis = new Redis(server.url);
  const consumer = new Consumer(kind, server.url);
  const connectionsBefore = await connectionCount(redis);
  const before = await consumer.ask<Usage>({ ask: 'usage' });
  await consumer.ask({ ask: 'subscribe', topics });
  const after = await consumer.ask<Usage>({ ask: 'usage' });
  const connections = (await connectionCount(redis)) - connectionsBefore;

  await new Promise(resolve => setTimeout(resolve, 2000));
  const idle = await usageOver(consumer, redis, () => new Promise(resolve => setTimeout(resolve, idleMs)));

  const p50s: number[] = [];
  const p99s: number[] = [];
  const drains: number[] = [];
  const client: number[] = [];
  const serverUs: number[] = [];
  // The first round is for warming up.
  for (let round = 0; round <= rounds; round++) {
    const paced = await pacedRound(consumer, redis, topics);
    let perS = 0;
    const usage = await usageOver(consumer, redis, async () => {
      perS = await drainRound(consumer, redis, topics);
    });
    if (round === 0) continue;
    p50s.push(percentile(paced, 0.5));
    p99s.push(percentile(paced, 0.99));
    drains.push(perS);
    client.push((usage.clientMs * 1000) / drainEvents);
    serverUs.push((usage.serverMs * 1000) / drainEvents);
  }
  await consumer.stop();
  redis.disconnect();
  await server.stop();
  running.delete(server);
  return {
    p50Us: median(p50s),
    p99Us: median(p99s),
    drainPerS: median(drains),
    connections,
    bytesPerSubscription: (after.rssBytes - before.rssBytes) / topics,
    idleClientPercent: (idle.clientMs / idle.ms) * 100,
    idleServerPercent: (idle.serverMs / idle.ms) * 100,
    clientUsPerEvent: median(client),
    serverUsPerEvent: median(serverUs),
  };
}

async function connectionCount(redis: Redis): Promise<number> {
  return Number(/connected_clients:(\d+)/.exec(await redis.info('clients'))?.[1]);
}

async function usageOver(
  consumer: Consumer,
  redis: Redis,
  work: () => Promise<unknown>,
): Promise<{ ms: number; clientMs: number; serverMs: number }> {
  const startMs = performance.now();
  const clientBefore = await consumer.ask<Usage>({ ask: 'usage' });
  const serverBefore = await serverCpuMs(redis);
  await work();
  const clientAfter = await consumer.ask<Usage>({ ask: 'usage' });
  const serverMs = (await serverCpuMs(redis)) - serverBefore;
  return { ms: performance.now() - startMs, clientMs: clientAfter.cpuMs - clientBefore.cpuMs, serverMs };
}

async function pacedRound(consumer: Consumer, redis: Redis, topics: number): Promise<number[]> {
  await consumer.ask({ ask: 'expect', events: pacedMs * pacedPerMs });
  const handled = consumer.answer<Handled>();
  await publishPaced(redis, topics);
  return (await handled).latenciesUs;
}

async function drainRound(consumer: Consumer, redis: Redis, topics: number): Promise<number> {
  await consumer.ask({ ask: 'expect', events: drainEvents });
  consumer.pause();
  await publishBacklog(redis, topics);
  const handled = consumer.answer<Handled>();
  const startUs = clockUs();
  consumer.resume();
  return drainEvents / (((await handled).lastAckUs - startUs) / 1e6);
}

/** Ended from outside, the server must not stay behind. */
const running = new Set<{ stop(): Promise<void> }>();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void Promise.all([...running].map(server => server.stop())).then(() => process.exit(1)));
}

const drainTargets: Record<number, number> = { 1: 2.5, 1000: 3, 10_000: 4 };

const results: BenchResult[] = [];
for (const topics of values.topics.split(',').map(Number)) {
  const theirs = await measure('theirs', topics);
  const ours = await measure('ours', topics);
  console.table({ theirs, ours });
  const of = (name: string) => `${name}, ${topics} topic${topics === 1 ? '' : 's'}`;
  results.push(
    compared(of('drain events/s'), ours.drainPerS, theirs.drainPerS, drainTargets[topics] ?? 2.5, 'higher'),
    compared(of('p99 us publish to handler'), ours.p99Us, theirs.p99Us, topics >= 10_000 ? 0.2 : 1, 'lower'),
    compared(of('p50 us publish to handler'), ours.p50Us, theirs.p50Us, topics >= 10_000 ? 1 : 1.5, 'lower'),
    limited(of('connections'), ours.connections, theirs.connections, 4, 'lower'),
    limited(of('idle CPU %, client and server'), ours.idleClientPercent + ours.idleServerPercent, theirs.idleClientPercent + theirs.idleServerPercent, 1, 'lower'),
    compared(of('client CPU us per event'), ours.clientUsPerEvent, theirs.clientUsPerEvent, 1, 'lower'),
    compared(of('server CPU us per event'), ours.serverUsPerEvent, theirs.serverUsPerEvent, 1, 'lower'),
  );
  if (topics > 1) results.push(compared(of('bytes per subscription'), ours.bytesPerSubscription, theirs.bytesPerSubscription, 1, 'lower'));
}
report('pubsub', results);
