/** Pods die without a word: what they had accepted runs elsewhere, and nobody runs beside them (S1, L1). */

import { setTimeout as pause } from 'node:timers/promises';

import { afterAll, expect, test } from 'vitest';

import type { Fault } from '../../chaos/history.ts';
import { until } from '../../support/until.ts';
import { killContainer, kubectl } from '../access.ts';
import type { Pod } from '../kube-types.ts';
import { Release, workerValues } from '../release.ts';
import { Traffic } from '../traffic.ts';
import { judgeTraffic, summaryOf } from '../verdict.ts';

const ttlMs = 5000;

let release: Release | undefined;
afterAll(async () => await release?.destroy());

test('SIGKILL of containers, and pods deleted without grace, under load', async () => {
  const made = (release = await Release.install('kill', workerValues({ settings: { ttlMs } })));
  const traffic = new Traffic({
    url: await made.url(), threads: Array.from({ length: 30 }, (_, n) => `thread-${n}`), perSecond: 20, workMs: 300,
  });
  const faults: Fault[] = [];
  const killed: string[] = [];
  const hit = async (kind: string, pod: Pod, how: () => Promise<unknown>) => {
    const fromMs = Date.now();
    await how();
    faults.push({ kind, pod: pod.metadata.name, fromMs, toMs: Date.now() });
  };
  const crash = async (pod: Pod) => {
    killed.push(pod.metadata.name);
    await hit('SIGKILL', pod, () => killContainer(pod.status.containerStatuses?.[0]?.containerID ?? ''));
  };

  await until('all are busy', () => traffic.sent > 100, 60_000);
  for (let round = 0; round < 2; round++) {
    const [first, second] = await made.readyPods(3);
    if (!first || !second) throw new Error('there are not enough pods');
    await crash(first);
    await pause(3000); // the two fall into each other's takeover
    await hit('deleted', second, () => kubectl(['delete', 'pod', second.metadata.name, '-n', made.namespace, '--grace-period=0', '--force']));
    await pause(ttlMs * 2);
  }
  // All but one at once.
  const [one, two] = await made.readyPods(3);
  if (!one || !two) throw new Error('there are not enough pods');
  await Promise.all([crash(one), crash(two)]);
  const restarted = () => made.watch.lives().flatMap(({ name, restarts }) => Array.from({ length: restarts }, () => name)).toSorted();
  await until('they were started again', () => restarted().length >= killed.length);
  await made.readyPods(3);
  const sentBefore = traffic.sent;
  await until('all serve again', () => traffic.sent > sentBefore + 100, 60_000);
  await traffic.stop();

  const { verdict } = await judgeTraffic(made, traffic, faults);
  console.log(`${verdict.accepted} signals, ${verdict.duplicates} ran again, longest takeover ${verdict.takeoverMaxMs} ms (TTL ${ttlMs} ms)`);
  // At least once is what is promised when a pod dies; the judge holds each repeat against the faults.
  const { duplicates } = verdict;
  expect(summaryOf(verdict)).toEqual({ violations: [], lost: [], orderBreaks: [], duplicates });
  expect(restarted()).toEqual(killed.toSorted());
});
