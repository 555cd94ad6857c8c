/**
 * One chaos run: a fleet under load, faults at random, rest, judgement.
 *
 * - fleet.ts      pods and servers        - clients.ts   who sends
 * - faults.ts     what goes wrong         - evidence.ts  what is left to look at
 * - meddler.ts    who changes their mind
 * - chaos-agent.ts the agents on the pods - checker.ts   what the guarantees say about it
 */

import { setTimeout as pause } from 'node:timers/promises';

import { judge } from './checker.ts';
import type { Verdict } from './checker.ts';
import { Sender } from './clients.ts';
import { NoteReader, readStore } from './evidence.ts';
import { FaultMaker } from './faults.ts';
import { startFleet } from './fleet.ts';
import type { Fleet } from './fleet.ts';
import type { Fault, History, Note, Withdrawal } from './history.ts';
import { Meddler } from './meddler.ts';
import { threadNames } from './names.ts';
import type { ChaosOptions } from './options.ts';
import { seededRandom } from './random.ts';
import type { Random } from './random.ts';
import { findLost } from './signals.ts';
import { watchForStalls, watchRedis } from './stalls.ts';

/** From the last fault until everything must be at rest: a drain, a start, the longest reconnect, the last signals. */
const restLimitMs = 60_000;
/** Between two requests to stop a run or to take signals back. */
const meddlingMs = 400;

export interface ChaosResult {
  readonly verdict: Verdict;
  readonly history: History;
  /** Log lines of the pods. */
  readonly logs: readonly string[];
}

export async function runChaos(options: ChaosOptions, say: (text: string) => void): Promise<ChaosResult> {
  const fleet = await startFleet(options);
  const notes = new NoteReader(fleet.notes.url);
  try {
    await allReady(fleet);
    const stressed = await stress(options, fleet, notes, say);
    say('no more faults: waiting until every accepted signal has run');
    const history = await comeToRest(options, fleet, notes, stressed);
    return { verdict: judge(history, options.ttlMs), history, logs: fleet.pods.flatMap(pod => pod.logs()) };
  } finally {
    notes.close();
    await fleet.stop();
  }
}

function allThreads({ threads }: ChaosOptions): string[] {
  const { busy, quiet } = threadNames(threads);
  return [...busy, ...quiet];
}

async function allReady({ pods }: Fleet): Promise<void> {
  await Promise.all(pods.map(pod => pod.whenReady()));
}

interface Stress {
  readonly senders: readonly Sender[];
  readonly withdrawals: readonly Withdrawal[];
  readonly faults: readonly Fault[];
  readonly stalls: readonly Fault[];
}

async function stress(options: ChaosOptions, fleet: Fleet, notes: NoteReader, say: (text: string) => void): Promise<Stress> {
  const random = seededRandom(options.seed);
  const over = AbortSignal.timeout(options.seconds * 1000);
  const giveUp = new AbortController();
  const senders = sendersFor(options, fleet, random, giveUp.signal);
  const meddler = new Meddler({
    pods: fleet.pods,
    threads: allThreads(options),
    random: random.fork('meddler'),
    everyMs: meddlingMs,
    accepted: thread => senders.flatMap(({ acceptances }) => acceptances.slice(-20)).filter(one => one.thread === thread),
  });
  const maker = new FaultMaker({ fleet, ttlMs: options.ttlMs, random: random.fork('faults') }, text => say(`fault: ${text}`));
  const stalls: Fault[] = [];
  const unwatch = [
    watchForStalls(stall => void stalls.push({ kind: 'machine stalled', ...stall })),
    watchRedis(fleet.redis.url, stall => void stalls.push({ kind: 'Redis stalled', ...stall })),
  ];
  const progress = setInterval(() => {
    void notes.read().then(read => say(progressOf(senders, read, maker.faults.length)), () => {});
  }, 5000);
  try {
    const sending = senders.map(sender => sender.run(over));
    await Promise.all([maker.run(over).then(() => allReady(fleet)), meddler.run(over), ...sending]);
    await senders[0]!.close();
  } finally {
    giveUp.abort();
    clearInterval(progress);
    for (const stop of unwatch) stop();
  }
  return { senders, withdrawals: meddler.withdrawals, faults: maker.faults, stalls: [...stalls, ...(await notes.stalls())] };
}

function sendersFor(options: ChaosOptions, fleet: Fleet, random: Random, giveUp: AbortSignal): Sender[] {
  const count = Math.max(2, Math.min(40, Math.ceil(options.rate / 2)));
  return Array.from({ length: count }, (_, n) => new Sender({
    name: `sender-${n}`,
    pods: fleet.pods,
    threads: threadNames(options.threads),
    random: random.fork(`sender ${n}`),
    everyMs: (1000 * count) / options.rate,
    giveUp,
  }));
}

function progressOf(senders: readonly Sender[], notes: readonly Note[], faults: number): string {
  const accepted = senders.reduce((sum, sender) => sum + sender.acceptances.length, 0);
  const ran = new Set(notes.flatMap(note => note.signalId ?? [])).size;
  return `${accepted} signals accepted, ${ran} have run, ${faults} faults`;
}

/** Waits for rest, within a limit: what has not come to rest by then is judged as it is. */
async function comeToRest(options: ChaosOptions, fleet: Fleet, notes: NoteReader, stress: Stress): Promise<History> {
  const { senders, withdrawals, faults, stalls } = stress;
  const threads = allThreads(options);
  const acceptances = senders.flatMap(sender => sender.acceptances);
  const look = async (): Promise<History> => ({
    given: await notes.readGiven(),
    notes: await notes.read(),
    withdrawals,
    acceptances,
    unanswered: new Set(senders.flatMap(({ pending }) => pending ?? [])),
    faults,
    stalls,
    ...(await readStore(fleet.redis.url, threads)),
  });
  let history = await look();
  const deadline = performance.now() + restLimitMs;
  while (performance.now() < deadline) {
    if (findLost(history).length === 0 && history.leftovers.length === 0) break;
    await pause(500);
    history = await look();
  }
  return history;
}
