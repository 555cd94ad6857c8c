/**
 * What a signal costs on its way, and what an owned thread costs that has nothing to do.
 *
 * Latency is from the moment in which the pod has a request's head to the moment in which the agent has the signal, of signals
 * sent one every few milliseconds: those that wake an idle thread, and those for a run that is on; on one pod, and on two
 * (wakes to either; into runs that are on the other). `theirs` is a plain express handler with a JSON body in the same process:
 * what HTTP alone takes. Nobody else makes the promises, so there is no other side to compare with.
 *
 * Owned threads: a pod whose runs all wait. CPU is that of the whole pod. `theirs` is a process that only renews as many leases
 * with our keeper, and for the cost per thread, a pod with a tenth of the threads.
 *
 * Arguments: `--rounds N` (default 5), `--signals N` a round (default 400), `--threads N` (default 10000), `--seconds N` of each
 * window of CPU (default 15, so that each thread was swept once).
 */

import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';
import { cpuMs, Marks, post, resourceId, send, startBenchPod } from './bench-pods.ts';
import { renewIntervalMs } from './leases-holder.ts';
import { compared, limited, median, percentile, report } from './report.ts';
import type { BenchResult } from './report.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    signals: { type: 'string', default: '400' },
    threads: { type: 'string', default: '10000' },
    seconds: { type: 'string', default: '15' },
  },
});
const rounds = Number(values.rounds);
const signalsPerRound = Number(values.signals);
const threadCount = Number(values.threads);
const windowMs = Number(values.seconds) * 1000;
const pauseMs = 4;
const runningThreads = 40;

const marks = await Marks.listen();
const { accepted, started, plainPorts } = marks;

/** Microseconds from request to agent, of signals sent one after the other. */
async function latencies(sendOne: (at: number) => Promise<string>): Promise<number[]> {
  const sent: Promise<string>[] = [];
  for (let at = 0; at < signalsPerRound; at++) {
    sent.push(sendOne(at));
    await sleep(pauseMs);
  }
  const ids = await Promise.all(sent);
  await until('all have started', () => ids.every(id => accepted.has(id) && started.has(id)), 60_000);
  return ids.map(id => (started.get(id) ?? Number.NaN) - (accepted.get(id) ?? Number.NaN));
}

const cases = ['plain handler', 'idle wake, one pod', 'into a run, one pod', 'idle wake, two pods', 'into a run on the other of two pods'] as const;
type Case = (typeof cases)[number];

async function measureLatency(redis: RedisServer): Promise<Map<Case, { p50: number[]; p99: number[] }>> {
  const [a, b] = [await startBenchPod('a', redis, marks), await startBenchPod('b', redis, marks)];
  const running = Array.from({ length: runningThreads }, (_, at) => `running-${at}`);
  const first = await Promise.all(running.map(thread => send(a, 'waiting', thread)));
  await until('all run, and both listen', () => first.every(id => started.has(id)) && plainPorts.size === 2, 60_000);
  const thread = (at: number) => running[at % runningThreads] ?? '';
  const fresh = () => `idle-${randomUUID()}`;
  const plain = async () => {
    const id = randomUUID();
    await post(`http://127.0.0.1:${plainPorts.get(a.pid)}/plain`, id, { signal: { id, type: 'user', contents: 'something to do' } });
    return id;
  };
  const ways: Record<Case, (at: number) => Promise<string>> = {
    'plain handler': plain,
    'idle wake, one pod': () => send(a, 'brief', fresh()),
    'into a run, one pod': at => send(a, 'waiting', thread(at)),
    'idle wake, two pods': at => send(at % 2 === 0 ? a : b, 'brief', fresh()),
    'into a run on the other of two pods': at => send(b, 'waiting', thread(at)),
  };
  const results = new Map(cases.map(name => [name, { p50: [] as number[], p99: [] as number[] }]));
  for (let round = 0; round <= rounds; round++) {
    for (const name of cases) {
      const us = await latencies(ways[name]);
      const [p50, p99] = [percentile(us, 0.5), percentile(us, 0.99)];
      if (round === 0) continue; // a round to warm up
      results.get(name)?.p50.push(p50);
      results.get(name)?.p99.push(p99);
      console.error(`round ${round} ${name}: p50 ${p50} us, p99 ${p99} us`);
    }
  }
  await Promise.all([a.destroy(), b.destroy()]);
  return results;
}

/** Percent of a core, one value a window. */
async function windows(what: string, pid: number, lengthMs: number): Promise<number[]> {
  const percents: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const [usedMs, fromMs] = [cpuMs(pid), performance.now()];
    await sleep(lengthMs);
    percents.push((100 * (cpuMs(pid) - usedMs)) / (performance.now() - fromMs));
  }
  console.error(`${what}: ${percents.map(percent => percent.toFixed(2)).join(', ')} % of a core`);
  return percents;
}

async function own(pod: RuntimeProcess, from: number, to: number): Promise<void> {
  let next = from;
  const worker = async () => {
    while (next < to) await send(pod, 'waiting', `owned-${next++}`);
  };
  started.clear();
  await Promise.all(Array.from({ length: 16 }, worker));
  await until(`${to - from} more threads are owned`, () => started.size === to - from, 120_000);
  await sleep(renewIntervalMs * 1.2);
}

interface OwnedCost {
  none: number;
  few: number;
  many: number;
  renewals: number;
}

async function measureOwned(redis: RedisServer): Promise<OwnedCost> {
  const pod = await startBenchPod('owner', redis, marks);
  await sleep(3000);
  const none = median(await windows('no thread', pod.pid, Math.min(windowMs, 4000)));
  const few = Math.ceil(threadCount / 10);
  await own(pod, 0, few);
  const withFew = median(await windows(`${few} threads`, pod.pid, windowMs));
  await own(pod, few, threadCount);
  const withMany = median(await windows(`${threadCount} threads`, pod.pid, windowMs));
  await pod.destroy();
  return { none, few: withFew, many: withMany, renewals: await renewalsAlone(redis) };
}

/** Percent of a core of a process that does nothing but renew as many leases. */
async function renewalsAlone(redis: RedisServer): Promise<number> {
  const child = fork(join(import.meta.dirname, 'leases-holder.ts'), ['ours', redis.url]);
  await once(child, 'message');
  const keys = Array.from({ length: threadCount }, (_, at) => `thread:{p${at % 64}}:${resourceId}:alone-${at}`);
  const held = once(child, 'message');
  child.send({ ask: 'hold', keys });
  await held;
  await sleep(renewIntervalMs * 1.2);
  const percents = await windows(`${threadCount} renewals alone`, child.pid ?? -1, renewIntervalMs * 2);
  const gone = once(child, 'exit');
  child.send({ ask: 'close' });
  await gone;
  return median(percents);
}

const redis = await startRedis();
const latency = await measureLatency(redis);
const cost = await measureOwned(redis);
await redis.stop();
marks.close();

const plain = latency.get('plain handler');
const results: BenchResult[] = [];
for (const name of cases.slice(1)) {
  const { p50 = [], p99 = [] } = latency.get(name) ?? {};
  results.push(limited(`${name}: p50 from request to agent, us`, median(p50), median(plain?.p50 ?? []), 2000, 'lower'));
  results.push(limited(`${name}: p99 from request to agent, us`, median(p99), median(plain?.p99 ?? []), 10_000, 'lower'));
}
const perThread = (percent: number, threads: number) => ((percent - cost.none) * 10_000) / threads;
results.push(
  limited(`${threadCount} owned threads: CPU beyond renewals, % of a core`, cost.many - cost.renewals, cost.renewals, 5, 'lower'),
  compared(
    `CPU of an owned thread, us a second: one of ${threadCount} beside one of ${threadCount / 10}`,
    perThread(cost.many, threadCount), perThread(cost.few, threadCount / 10), 1.2, 'lower',
  ),
);
report('signals', results);
