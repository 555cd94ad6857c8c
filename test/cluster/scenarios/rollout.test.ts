/** A rolling upgrade under load, with runs that take long: nothing lost, nothing twice, no request refused (cases 38 and 39). */

import { afterAll, expect, test } from 'vitest';

import { until } from '../../support/until.ts';
import { images } from '../images.ts';
import { imageValues, Release, workerValues } from '../release.ts';
import { sendOne, Traffic } from '../traffic.ts';
import { Viewer } from '../viewer.ts';
import { faultless, judgeTraffic, summaryOf } from '../verdict.ts';

const longRunMs = 60_000;
const perSecond = 50;

let release: Release | undefined;
afterAll(async () => await release?.destroy());

test(`an upgrade to another image with runs of ${longRunMs / 1000} s and ${perSecond} requests/s`, async () => {
  // Longer than the longest run; the chart computes the grace period from it.
  const values = (image: string) => workerValues({ image: imageValues(image), settings: { drainTimeoutMs: longRunMs + 10_000 } });
  release = await Release.install('rollout', values(images.runtime));
  const before = (await release.readyPods(3)).map(({ metadata }) => metadata.name);
  const url = await release.url();
  const startedMs = performance.now();
  const traffic = new Traffic({ url, threads: Array.from({ length: 60 }, (_, n) => `thread-${n}`), perSecond, workMs: 30 });
  const long = Array.from({ length: 12 }, (_, n) => `long-${n}`);
  await Promise.all(long.map(thread => sendOne(traffic, { url, thread, sender: 'long', order: 1, contents: `work ${longRunMs}` })));
  await until('all pods have work', () => traffic.sent > 200, 60_000);
  const viewed = ['thread-0', 'thread-1', 'thread-2', 'thread-3', ...long.slice(0, 4)];
  const viewers = viewed.map(thread => new Viewer(url, thread));
  await until('all viewers are there', () => viewers.every(({ streams }) => streams > 0), 60_000);

  await release.upgrade(values(images.nextRuntime));
  // What comes to busy threads meanwhile waits for its turn, wherever that is.
  await Promise.all(long.map(thread => sendOne(traffic, { url, thread, sender: 'next', order: 1, contents: 'work 1000' })));
  await release.rolledOut();
  const after = (await release.readyPods(3)).map(({ metadata }) => metadata.name);
  expect(after.filter(name => before.includes(name))).toEqual([]);
  const sentBefore = traffic.sent;
  await until('the new ones serve', () => traffic.sent > sentBefore + 100, 60_000);
  await traffic.stop();
  const rate = traffic.sent / ((performance.now() - startedMs) / 1000);

  const { verdict, notes } = await judgeTraffic(release, traffic);
  console.log(`${verdict.accepted} signals, ${rate.toFixed(1)} a second, ${verdict.runs} runs, ${traffic.failures.length} refused`);
  expect(summaryOf(verdict)).toEqual(faultless);
  expect(traffic.failures).toEqual([]);
  // Who looks on sees each signal of its thread once, in the order in which they ran, whichever pods it had to ask.
  for (const [n, viewer] of viewers.entries()) {
    const ran = notes.filter(note => note.event === 'signal' && note.thread === viewed[n]).map(note => note.signalId);
    await until(`the viewer of ${viewed[n]} has seen the last`, () => viewer.texts.includes(ran.at(-1) ?? ''), 60_000);
    viewer.stop();
    expect(viewer.texts).toEqual(ran.slice(-viewer.texts.length));
    expect(viewer.streams).toBeGreaterThan(1);
  }
  const pods = new Set(notes.map(note => note.pod));
  for (const name of [...before, ...after]) expect(pods).toContain(name);
  const lives = release.watch.lives();
  expect(lives).toHaveLength(6);
  for (const { name, restarts, exits } of lives) {
    expect({ name, restarts, exits }).toEqual({ name, restarts: 0, exits: new Set(before.includes(name) ? [0] : []) });
  }
});
