/** How long a thread with waiting signals was without a run after its owner was hit by a fault. */

import type { Fault, History, Note } from './history.ts';

interface RunSpan {
  readonly pod: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly attempt: number;
}

/**
 * From a fault of a pod in the middle of a run to the start of the run that repeats its signals: as long as the fault went
 * on, other faults included; only the time in which Redis itself was away is taken off, since then nobody could take over.
 */
export function longestTakeoverMs({ notes, faults }: History): number {
  const threads = [...Map.groupBy(notes, note => note.thread).values()].map(spansOf);
  const outages = faults.filter(fault => fault.pod === undefined);
  let longest = 0;
  for (const fault of faults) {
    if (fault.pod === undefined) continue;
    for (const spans of threads) longest = Math.max(longest, takeoverMs(fault, spans, outages));
  }
  return longest;
}

function takeoverMs(fault: Fault, spans: readonly RunSpan[], outages: readonly Fault[]): number {
  const at = spans.findLastIndex(span => span.startedAtMs <= fault.fromMs);
  const hit = spans[at];
  const next = spans[at + 1];
  if (!hit || !next || hit.pod !== fault.pod || hit.endedAtMs <= fault.fromMs || next.attempt === 1) return 0;
  const away = outages.reduce((sum, { fromMs, toMs }) => sum + overlapMs(fromMs, toMs, fault.fromMs, next.startedAtMs), 0);
  return next.startedAtMs - fault.fromMs - away;
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
