/** How long a thread with waiting signals was without a run after its owner was hit by a fault. */

import type { Finding } from './finding.ts';
import { describeFault } from './history.ts';
import type { Fault, History, Note } from './history.ts';
import { sweepIntervalMs } from './names.ts';
import type { ChaosOptions } from './options.ts';

interface RunSpan {
  readonly pod: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly attempt: number;
}

export interface Takeover {
  readonly thread: string;
  readonly fault: Fault;
  readonly byPod: string;
  readonly atMs: number;
  /** From the fault on, without the time in which nobody could take over because Redis itself was away. */
  readonly tookMs: number;
}

/**
 * A dead owner's lease has at most its TTL to go, and then a sweep finds the thread: each begins at most an interval and its jitter
 * of a tenth after the one before has ended. What the steps themselves take (a look at all partitions, a claim, a take, the
 * agent's first note, on pods that share the processors with all others) is allowed a second; longer stalls are told.
 */
export function promisedSweepMs(intervalMs: number): number {
  return intervalMs * 1.1 + 1000;
}

/** Faults that end an owner at once. After the others it may live on, so that nobody knows from when on it was missing. */
const deadly: ReadonlySet<string> = new Set(['SIGKILL', 'agent exits', 'agent crashes']);
/** For how long after a fault pods may still be busy with it: connections come back with a backoff of at most a second. */
const aftermathMs = 2000;

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * Deaths after which a thread waited although there was a peer that could have taken it: one that nothing was wrong with, for longer
 * than a sweep takes, after the dead one's lease had ended.
 */
export function checkTakeovers(history: History, { ttlMs }: Pick<ChaosOptions, 'ttlMs'>): Finding[] {
  const faults = [...history.faults, ...history.stalls];
  const pods = new Set(faults.flatMap(({ pod }) => pod ?? []));
  const promisedMs = promisedSweepMs(sweepIntervalMs);
  return takeovers(history).flatMap(takeover => {
    const { fault, thread, atMs } = takeover;
    if (!deadly.has(fault.kind)) return [];
    const others = faults.filter(other => other !== fault);
    const waits = [...pods].filter(pod => pod !== fault.pod).map(pod => ({
      pod, waitedMs: longestGapMs({ fromMs: fault.fromMs + ttlMs, toMs: atMs }, others.flatMap(other => troubleFor(pod, other, fault.fromMs, ttlMs))),
    }));
    return waits.filter(({ waitedMs }) => waitedMs > promisedMs).map(({ pod, waitedMs }) => ({
      rule: `a dead owner's thread was left alone for ${Math.round(waitedMs)} ms by a peer that was well; a sweep takes ${promisedMs} at most`,
      thread,
      records: [describeTakeover(takeover), `${pod} was well`, ...others.filter(other => other.toMs > fault.fromMs && other.fromMs < atMs).map(describeFault)],
    }));
  });
}

/**
 * When a fault excuses a pod: its own and the store's while they last and a little longer; another's if that may have taken the
 * thread and held it then. Before half of the TTL was over it can't have: renewals left more than that.
 */
function troubleFor(pod: string, { fromMs, toMs, ...fault }: Fault, diedAtMs: number, ttlMs: number): Span[] {
  if (fault.pod === undefined || fault.pod === pod) return [{ fromMs, toMs: toMs + aftermathMs }];
  return fromMs > diedAtMs + ttlMs / 2 ? [{ fromMs, toMs: Math.max(toMs, fromMs + ttlMs) }] : [];
}

/** The longest time within `span` that none of `covered` touches. */
function longestGapMs({ fromMs, toMs }: Span, covered: readonly Span[]): number {
  let [longest, reached] = [0, fromMs];
  for (const part of covered.toSorted((a, b) => a.fromMs - b.fromMs)) {
    longest = Math.max(longest, Math.min(part.fromMs, toMs) - reached);
    reached = Math.max(reached, part.toMs);
  }
  return Math.max(longest, toMs - reached);
}

/**
 * Every fault of a pod in the middle of a run, until the start of the run that repeats its signals. However long the fault
 * went on, and whatever other faults came in between, belongs to it.
 */
export function takeovers({ notes, faults }: History): Takeover[] {
  const threads = [...Map.groupBy(notes, note => note.thread)].map(([thread, rows]) => [thread, spansOf(rows)] as const);
  const outages = faults.filter(fault => fault.pod === undefined);
  const ofPods = faults.filter(fault => fault.pod !== undefined);
  return ofPods.flatMap(fault =>
    threads.flatMap(([thread, spans]) => {
      const next = successorAfter(fault, spans);
      if (!next) return [];
      const away = outages.reduce((sum, { fromMs, toMs }) => sum + overlapMs(fromMs, toMs, fault.fromMs, next.startedAtMs), 0);
      return [{ thread, fault, byPod: next.pod, atMs: next.startedAtMs, tookMs: next.startedAtMs - fault.fromMs - away }];
    }),
  );
}

export function longestTakeover(history: History): Takeover | undefined {
  return takeovers(history).reduce<Takeover | undefined>((most, one) => (most && most.tookMs >= one.tookMs ? most : one), undefined);
}

export function describeTakeover({ thread, fault, byPod, atMs, tookMs }: Takeover): string {
  return `takeover of ${Math.round(tookMs)} ms, ${thread} by ${byPod} at ${new Date(atMs).toISOString().slice(11, 23)} after ${describeFault(fault)}`;
}

/** The run that came after the one that this fault hit, if it repeats what that one left. */
function successorAfter(fault: Fault, spans: readonly RunSpan[]): RunSpan | undefined {
  const at = spans.findLastIndex(span => span.startedAtMs <= fault.fromMs);
  const hit = spans[at];
  const next = spans[at + 1];
  const wasHit = hit?.pod === fault.pod && hit !== undefined && hit.endedAtMs > fault.fromMs;
  return wasHit && next && next.attempt > 1 ? next : undefined;
}

function overlapMs(from: number, to: number, low: number, high: number): number {
  return Math.max(0, Math.min(to, high) - Math.max(from, low));
}

/** The runs of one thread in the order of their starts; a run without an end never ended. */
function spansOf(rows: readonly Note[]): RunSpan[] {
  return [...Map.groupBy(rows, note => note.runId).values()].map(notes => ({
    pod: notes[0]?.pod ?? '',
    startedAtMs: notes[0]?.atMs ?? 0,
    endedAtMs: notes.find(note => note.event === 'end')?.atMs ?? Infinity,
    attempt: notes[0]?.attempt ?? 1,
  })).sort((a, b) => a.startedAtMs - b.startedAtMs);
}
