/** Pods come and go under load: nothing is lost, nothing refused, nothing runs twice (case 41). */

import { setTimeout as pause } from 'node:timers/promises';

import { afterAll, expect, test } from 'vitest';

import { until } from '../../support/until.ts';
import { Release, workerValues } from '../release.ts';
import { sendOne, Traffic } from '../traffic.ts';
import { faultless, judgeTraffic, summaryOf } from '../verdict.ts';

/** Longer than the rest of the scale-down, shorter than a drain lets runs finish. */
const longRunMs = 18_000;

let release: Release | undefined;
afterAll(async () => await release?.destroy());

test('from one pod to three to one, with busy threads: what ran goes on where it is, and the rest elsewhere', async () => {
  release = await Release.install('scale', workerValues({ replicaCount: 1, podDeletionCost: { enabled: true } }));
  const url = await release.url();
  const traffic = new Traffic({ url, threads: Array.from({ length: 40 }, (_, n) => `thread-${n}`), perSecond: 20, workMs: 200 });
  await until('the only pod is busy', () => traffic.sent > 60, 60_000);
  await release.scale(3);
  await release.readyPods(3);
  await pause(5000); // whatever the new ones get a share of

  const busy = Array.from({ length: 9 }, (_, n) => `busy-${n}`);
  await Promise.all(busy.map(thread => sendOne(traffic, { url, thread, sender: 'long', order: 1, contents: `work ${longRunMs}` })));
  await release.scale(1);
  // The next turn of each, while the pods that run them go.
  await Promise.all(busy.map(thread => sendOne(traffic, { url, thread, sender: 'next', order: 1, contents: 'work 10' })));
  const [left] = await release.readyPods(1);
  const sentBefore = traffic.sent;
  await until('the one that is left serves', () => traffic.sent > sentBefore + 40, 60_000);
  await traffic.stop();

  const { verdict, notes } = await judgeTraffic(release, traffic);
  expect(summaryOf(verdict)).toEqual(faultless);
  expect(traffic.failures).toEqual([]);
  expect(new Set(notes.map(note => note.pod)).size).toBe(3);
  const lives = release.watch.lives();
  expect(lives).toHaveLength(3);
  for (const { name, restarts, exits } of lives) {
    expect({ name, restarts, exits }).toEqual({ name, restarts: 0, exits: new Set(name === left?.metadata.name ? [] : [0]) });
  }
});
