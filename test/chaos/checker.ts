/**
 * Judges a history by the guarantees of DESIGN 5. It knows nothing of how the history came about.
 *
 * - ownership.ts   L1, L5: one run of a thread acts at a time, tokens grow
 * - signals.ts     S1, S2, S4: what became of each signal, and in which order
 * - withdrawals.ts  aborts and cancels do what their answers say, and no more
 * - output.ts      L6: what the runs put out
 * - takeover.ts    how long threads waited for a new owner
 */

import type { Finding } from './finding.ts';
import type { History } from './history.ts';
import { checkOutput } from './output.ts';
import { checkOwnership } from './ownership.ts';
import { checkOrder, checkRepeats, checkRuns, findLost, repeatedSignals } from './signals.ts';
import { checkTakeovers, longestTakeover } from './takeover.ts';
import { checkWithdrawals } from './withdrawals.ts';

export interface Verdict {
  readonly accepted: number;
  readonly runs: number;
  readonly faults: number;
  readonly violations: readonly Finding[];
  readonly lost: readonly Finding[];
  /** Signals that ran more than once. At least once is the promise: a repeat after a fault is no violation. */
  readonly duplicates: number;
  readonly orderBreaks: readonly Finding[];
  readonly takeoverMaxMs: number;
}

/** `ttlMs`: of the leases, for judging takeovers. Default: they are not judged. */
export function judge(history: History, ttlMs = Infinity): Verdict {
  const { notes, acceptances, faults, leftovers } = history;
  return {
    accepted: acceptances.length,
    runs: new Set(notes.map(note => note.runId)).size,
    faults: faults.length,
    violations: [
      ...checkOwnership(notes),
      ...checkRuns(history),
      ...checkRepeats(history),
      ...checkWithdrawals(history),
      ...checkOutput(history.output),
      ...checkTakeovers(history, { ttlMs }),
      ...leftovers.map(key => ({ rule: 'an idle thread left something behind', thread: key, records: [key] })),
    ],
    lost: findLost(history),
    duplicates: repeatedSignals(notes).size,
    orderBreaks: checkOrder(history),
    takeoverMaxMs: Math.round(longestTakeover(history)?.tookMs ?? 0),
  };
}

export function isClean({ violations, lost, orderBreaks }: Verdict): boolean {
  return violations.length === 0 && lost.length === 0 && orderBreaks.length === 0;
}
