/** Redis and the API server go away and come back: no container is restarted for that, and nothing is lost (cases 40 and 43). */

import { setTimeout as pause } from 'node:timers/promises';

import { afterEach, expect, inject, test } from 'vitest';

import type { Fault } from '../../chaos/history.ts';
import { until } from '../../support/until.ts';
import { isReady } from '../kube-types.ts';
import { Release, workerValues } from '../release.ts';
import { Traffic } from '../traffic.ts';
import { faultless, judgeTraffic, summaryOf } from '../verdict.ts';

/** Longer than liveness has patience (6 times 10 s), and than any connection's. */
const redisAwayMs = 300_000;
/** Longer than watches stay silent, than a node's lease and than an Event is tried. */
const apiServerAwayMs = 90_000;

let release: Release | undefined;
afterEach(async () => await release?.destroy());

async function busyRelease(namespace: string, perSecond: number): Promise<{ made: Release; traffic: Traffic }> {
  const made = (release = await Release.install(namespace, workerValues({ settings: { ttlMs: 5000 } })));
  await made.readyPods(3);
  const threads = Array.from({ length: 30 }, (_, n) => `thread-${n}`);
  const traffic = new Traffic({ url: await made.url(), threads, perSecond, workMs: 100 });
  await until('all are busy', () => traffic.sent > 50, 60_000);
  return { made, traffic };
}

function untouched(made: Release): void {
  const lives = made.watch.lives();
  expect(lives).toHaveLength(3);
  for (const life of lives) expect(life).toEqual({ name: life.name, restarts: 0, exits: new Set() });
}

/** Whatever was on its way when the store went away may run again: the judge holds it against the outage. */
async function judged(made: Release, traffic: Traffic, outage: Fault): Promise<void> {
  const { verdict } = await judgeTraffic(made, traffic, [outage]);
  const { accepted, duplicates } = verdict;
  console.log(`${accepted} signals, ${duplicates} ran again, ${traffic.failures.length} tries failed meanwhile`);
  expect(summaryOf(verdict)).toEqual({ violations: [], lost: [], orderBreaks: [], duplicates });
}

async function goesOn(traffic: Traffic): Promise<void> {
  const before = traffic.acceptances.length;
  await until('signals are accepted again', () => traffic.acceptances.length > before + 50, 120_000);
}

test('Redis dies and is started again with its data', async () => {
  const { made, traffic } = await busyRelease('redis-restarted', 20);
  const fromMs = Date.now();
  await made.store.restart();
  const outage = { kind: 'Redis restarted', fromMs, toMs: Date.now() };
  await goesOn(traffic);
  await made.readyPods(3);
  await traffic.stop();
  await judged(made, traffic, outage);
  untouched(made);
});

test(`Redis answers nobody for ${redisAwayMs / 60_000} minutes: not ready, alive, and back by themselves`, async () => {
  const { made, traffic } = await busyRelease('redis-away', 5);
  const fromMs = Date.now();
  await made.store.pause();
  await until('no pod is ready', async () => (await made.pods()).every(pod => !isReady(pod)), 60_000, 500);
  await pause(redisAwayMs - (Date.now() - fromMs));
  untouched(made);
  await made.store.resume();
  const outage = { kind: 'Redis away', fromMs, toMs: Date.now() };
  await made.readyPods(3);
  await goesOn(traffic);
  await traffic.stop();
  await judged(made, traffic, outage);
  untouched(made);
});

test(`the API server answers nobody for ${apiServerAwayMs / 1000} s: nobody who sends signals notices, and edits land again`, async () => {
  const { made, traffic } = await busyRelease('api-away', 20);
  const pods = await made.readyPods(3);
  const { apiServerPid } = inject('cluster');
  process.kill(apiServerPid, 'SIGSTOP');
  try {
    await pause(apiServerAwayMs);
    expect(traffic.failures).toEqual([]);
  } finally {
    process.kill(apiServerPid, 'SIGCONT');
  }
  await until('it takes an edit', async () => await made.editTuning({ MASTRA_AGENT_THREAD_LEASE_TTL_MS: '6000' }).then(() => true, () => false), 60_000, 1000);
  for (const pod of pods) {
    const landed = async () => (await made.settingsOf(pod)).effective['MASTRA_AGENT_THREAD_LEASE_TTL_MS']?.value === 6000;
    await until(`the edit lands on ${pod.metadata.name}`, landed, 120_000, 500);
  }
  await goesOn(traffic);
  await traffic.stop();
  const { verdict } = await judgeTraffic(made, traffic);
  expect(summaryOf(verdict)).toEqual(faultless);
  const now = await made.readyPods(3);
  expect(now.map(({ metadata }) => metadata.uid).toSorted()).toEqual(pods.map(({ metadata }) => metadata.uid).toSorted());
  for (const { status } of now) expect(status.containerStatuses?.[0]?.restartCount).toBe(0);
});
