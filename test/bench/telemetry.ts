/**
 * What telemetry costs, and what a collector that can't be reached does to a pod.
 *
 * Signals a second: two pods beside each other, one without telemetry (`theirs`), one that sends traces (one in ten) and metrics to
 * a collector. They get the same load in turn: each signal wakes an idle thread, runs and ends. `ours` and `theirs` are medians of
 * the rounds.
 *
 * Unreachable collector: a pod that keeps every trace, more than its queue holds, and can't get rid of one, because nothing listens
 * (`refused`) or because what listens never answers (`silent`); beside a pod without telemetry. Memory is what is in use after a
 * collection, per 1,000 signals more. The drain is from its first line in the log to its last; what comes after it until the process
 * ends is telemetry's own limit.
 *
 * Arguments: `--rounds N` (default 15), `--signals N` a round (default 2000), `--drains N` (default 5).
 */

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { freePort, startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';
import { cpuMs, Marks, send, startBenchPod } from './bench-pods.ts';
import { compared, limited, median, report } from './report.ts';
import type { BenchResult } from './report.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '15' },
    signals: { type: 'string', default: '2000' },
    drains: { type: 'string', default: '5' },
  },
});
const rounds = Number(values.rounds);
const signalsPerRound = Number(values.signals);
const drains = Number(values.drains);
const atOnce = 32;
/** Of the CPU of a pod without telemetry. The signals/s are what is promised; this is where they go. */
const cpuBudget = 1.25;
const ownedAtDrain = 100;
const growthRounds = 8;
/** Exporters try for 10 s. */
const givenUpAfterMs = 13_000;
const drainTimeoutMs = 1000;
/** What the runtime gives telemetry at its end, and what a process needs to go. */
const lastSendMs = 3000 + 500;

const marks = await Marks.listen();
const redis = await startRedis();

/** Takes what it gets and says so, or says nothing at all. */
async function listen(answers: boolean): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    if (answers) request.on('end', () => response.end());
  });
  server.listen(0, '127.0.0.1').unref();
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const off = { OTEL_SDK_DISABLED: 'true' };
const unreachable: Record<string, Record<string, string>> = {
  off,
  refused: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}`, OTEL_METRIC_EXPORT_INTERVAL: '1000' },
  silent: { OTEL_EXPORTER_OTLP_ENDPOINT: await listen(false), OTEL_METRIC_EXPORT_INTERVAL: '1000' },
};

/** Each signal wakes a thread of its own, `atOnce` requests at a time. Answers seconds until all have run. */
async function load(pod: RuntimeProcess, count: number): Promise<number> {
  marks.accepted.clear();
  marks.started.clear();
  const fromMs = performance.now();
  const ids: string[] = [];
  let next = 0;
  const worker = async () => {
    while (next++ < count) ids.push(await send(pod, 'brief', randomUUID()));
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  const lastAnswerMs = performance.now();
  await until('all have run', () => ids.every(id => marks.started.has(id)), 60_000, 2);
  return (lastAnswerMs - fromMs) / 1000;
}

interface Throughput {
  perSecond: number[];
  cpuUs: number[];
}

async function measureThroughput(): Promise<{ on: Throughput; off: Throughput }> {
  const pods = {
    off: await startBenchPod('off', redis, marks, off),
    on: await startBenchPod('on', redis, marks, {
      OTEL_EXPORTER_OTLP_ENDPOINT: await listen(true),
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.1',
      OTEL_METRIC_EXPORT_INTERVAL: '10000',
    }),
  };
  const results = { on: { perSecond: [] as number[], cpuUs: [] as number[] }, off: { perSecond: [] as number[], cpuUs: [] as number[] } };
  const [warmUp, all] = [2, rounds + 2];
  for (let round = 0; round < all; round++) {
    // Turn about, so that what changes over time is not on one side.
    for (const side of round % 2 === 0 ? (['off', 'on'] as const) : (['on', 'off'] as const)) {
      const usedMs = cpuMs(pods[side].pid);
      const perSecond = signalsPerRound / (await load(pods[side], signalsPerRound));
      const cpuUs = ((cpuMs(pods[side].pid) - usedMs) * 1000) / signalsPerRound;
      console.error(`round ${round} ${side}: ${perSecond.toFixed(0)} signals/s, ${cpuUs.toFixed(0)} us of CPU each`);
      if (round < warmUp) continue;
      results[side].perSecond.push(perSecond);
      results[side].cpuUs.push(cpuUs);
    }
  }
  await Promise.all(Object.values(pods).map(pod => pod.destroy()));
  return results;
}

async function weigh(pod: RuntimeProcess): Promise<number> {
  const id = await send(pod, 'weighing', randomUUID());
  await until('the pod was weighed', () => marks.heaps.has(id));
  return marks.heaps.get(id) ?? Number.NaN;
}

/**
 * KiB in use that each 1,000 signals leave. After a pause each time: what is on its way is held for as long as it is tried, some
 * megabytes while signals keep coming, and is given up after that.
 */
async function measureGrowth(name: string): Promise<number> {
  const pod = await startBenchPod(name, redis, marks, { NODE_OPTIONS: '--expose-gc', ...unreachable[name] });
  const weights: number[] = [];
  for (const count of [2, growthRounds]) {
    for (let round = 0; round < count; round++) await load(pod, signalsPerRound);
    await sleep(givenUpAfterMs);
    weights.push(await weigh(pod));
  }
  await pod.destroy();
  const [before = Number.NaN, after = Number.NaN] = weights.map(bytes => bytes / 1024);
  console.error(`${name}: ${(before / 1024).toFixed(1)} MiB in use, and ${(after / 1024).toFixed(1)} MiB after ${growthRounds * signalsPerRound} signals more`);
  return (after - before) / ((growthRounds * signalsPerRound) / 1000);
}

/** Milliseconds of a drain, and those from its end to that of the process. */
async function measureDrain(name: string): Promise<{ drain: number; after: number }> {
  // Of its own: what a drain leaves is for others to take, and none of these is to have it.
  const store = await startRedis();
  try {
    return await drainOn(store, name);
  } finally {
    await store.stop();
  }
}

async function drainOn(store: RedisServer, name: string): Promise<{ drain: number; after: number }> {
  const pod = await startBenchPod(name, store, marks, {
    LOG_LEVEL: 'info', MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: String(drainTimeoutMs), ...unreachable[name],
  });
  await load(pod, 500);
  const owned = Array.from({ length: ownedAtDrain }, () => send(pod, 'held', randomUUID()));
  const ids = await Promise.all(owned);
  await until('all wait', () => ids.every(id => marks.started.has(id)));
  pod.kill('SIGTERM');
  const code = await pod.exited();
  const endMs = Date.now();
  if (code !== 0) throw new Error(`${name} ended with ${code}: ${pod.stderr()}`);
  const lines = pod.logs().map(line => JSON.parse(line) as { msg: string; time: string });
  const at = (message: string) => Date.parse(lines.find(line => line.msg === message)?.time ?? '');
  return { drain: at('stopped') - at('draining'), after: endMs - at('stopped') };
}

async function measure(): Promise<BenchResult[]> {
  const { on, off: without } = await measureThroughput();
  const results: BenchResult[] = [
    compared('signals/s with telemetry, one trace in ten', median(on.perSecond), median(without.perSecond), 0.9, 'higher'),
    compared('CPU of a pod for a signal, us', median(on.cpuUs), median(without.cpuUs), cpuBudget, 'lower'),
  ];
  const growth = new Map<string, number>();
  for (const name of Object.keys(unreachable)) growth.set(name, await measureGrowth(name));
  const times = new Map(Object.keys(unreachable).map(name => [name, { drain: [] as number[], after: [] as number[] }]));
  for (let round = 0; round < drains; round++) {
    for (const [name, all] of times) {
      const { drain, after } = await measureDrain(name);
      console.error(`${name}: drain ${drain} ms, ${after} ms from there to the end`);
      all.drain.push(drain);
      all.after.push(after);
    }
  }
  for (const name of ['refused', 'silent']) {
    const of = (which: string) => times.get(which) ?? { drain: [], after: [] };
    results.push(
      // One span kept of each signal would be a thousand.
      limited(`collector ${name}: memory that 1,000 signals leave, KiB`, growth.get(name) ?? Number.NaN, growth.get('off') ?? Number.NaN, 100, 'lower'),
      compared(`collector ${name}: drain, ms`, median(of(name).drain), median(of('off').drain), 1.1, 'lower'),
      limited(`collector ${name}: from the end of the drain to that of the process, ms`, median(of(name).after), median(of('off').after), lastSendMs, 'lower'),
    );
  }
  return results;
}

try {
  report('telemetry', await measure());
} finally {
  await redis.stop();
  marks.close();
}
process.exit(0); // what never answers is still held open
