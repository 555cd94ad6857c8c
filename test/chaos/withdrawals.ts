/** Aborts and cancels in a history: what was taken back does not run, what was stopped stops, and nothing else is missing. */

import type { Finding } from './finding.ts';
import { describeNote, describeWithdrawal } from './history.ts';
import type { Acceptance, Fault, History, Withdrawal } from './history.ts';

/** Longest time after which a request that got no answer may still take effect: that of the longest fault, and then some. */
const lateEffectMs = 10_000;
/** From the answer to an abort until its run acts no more, where no fault is in the way: a hint, on pods that share the processors. */
const promptMs = 750;
/** For how long after a fault hints may be missing: its connections come back with a backoff of at most a second. */
const aftermathMs = 2000;

/** Whether a signal may rightly never have run: it was taken back, or given to a run that was stopped. */
export function withdrawnIn(history: History): (acceptance: Acceptance) => boolean {
  const known = new Set(history.withdrawals.flatMap(({ answer }) => answer?.withdrawn ?? []));
  const unsure = history.withdrawals.filter(one => one.answer === undefined || history.faults.some(fault => mayHaveCost(one, fault)));
  const stopped = stoppedRuns(history);
  const givenToStopped = new Set(history.given.filter(({ runId }) => stopped.has(runId)).flatMap(({ signalIds }) => signalIds));
  return acceptance =>
    known.has(acceptance.id) || givenToStopped.has(acceptance.id) ||
    unsure.some(withdrawal => mayCover(withdrawal, acceptance) && !wasOvertaken(history, acceptance, withdrawal.fromMs));
}

/**
 * Whether one that was accepted later, and may not run before it, had run by then: it did not wait any more then, and was not there to
 * be taken back. How long it has waited says nothing: what is only kept waits for the next run.
 */
function wasOvertaken({ acceptances, notes }: History, { thread, agent, turn, atMs }: Acceptance, byMs: number): boolean {
  const later = acceptances.filter(one => one.thread === thread && one.agent === agent && one.turn === turn && one.fromMs > atMs);
  const ids = new Set(later.map(({ id }) => id));
  return notes.some(note => note.signalId !== undefined && ids.has(note.signalId) && note.atMs < byMs);
}

/** A first try may have taken it back whose reply was lost, so that the answer does not name it. */
function mayCover({ thread, signalIds, toMs, answer }: Withdrawal, acceptance: Acceptance): boolean {
  if (thread !== acceptance.thread || !(signalIds?.includes(acceptance.id) ?? true)) return false;
  return acceptance.fromMs <= (answer ? toMs : toMs + lateEffectMs);
}

/** Runs that say that they were stopped on request. */
function stoppedRuns({ output }: History): Set<string> {
  return new Set(output.filter(({ type, reason }) => type === 'abort' && reason === 'aborted').map(({ runId }) => runId));
}

export function checkWithdrawals(history: History): Finding[] {
  return [...ranAfterwards(history), ...wentOn(history), ...stoppedUnasked(history)];
}

function ranAfterwards({ notes, withdrawals }: History): Finding[] {
  return withdrawals.flatMap(withdrawal => {
    const withdrawn = new Set(withdrawal.answer?.withdrawn);
    const late = notes.filter(({ signalId, atMs }) => signalId !== undefined && withdrawn.has(signalId) && atMs > withdrawal.toMs);
    return late.map(note => findingOf('a signal ran that was taken back', withdrawal, [describeNote(note)]));
  });
}

function wentOn({ notes, withdrawals, faults, stalls }: History): Finding[] {
  return withdrawals.flatMap(withdrawal => {
    const { answer, toMs } = withdrawal;
    if (answer?.stopped === undefined) return [];
    const late = notes.find(({ runId, atMs }) => runId === answer.stopped && atMs > toMs + promptMs);
    if (!late) return [];
    const concerned = [...faults, ...stalls].filter(({ pod }) => pod === undefined || pod === late.pod);
    const inTheWay = (fault: Fault) => fault.fromMs <= late.atMs && fault.toMs + aftermathMs >= withdrawal.fromMs;
    return concerned.some(inTheWay) ? [] : [findingOf('a run went on after it was stopped', withdrawal, [describeNote(late)])];
  });
}

function stoppedUnasked(history: History): Finding[] {
  const asked = ({ runId, thread }: History['output'][number]) =>
    history.withdrawals.some(one => one.thread === thread && (one.stops === 'any' || one.stops === runId));
  return history.output
    .filter(({ type, reason }) => type === 'abort' && reason === 'aborted')
    .filter(row => !asked(row))
    .map(row => ({ rule: 'a run was stopped that nobody asked to stop', thread: row.thread, records: [`run ${row.runId}`] }));
}

/** The reply of a first try. */
function mayHaveCost(withdrawal: Withdrawal, fault: Fault): boolean {
  return (fault.pod === undefined || fault.pod === withdrawal.pod) && fault.fromMs <= withdrawal.toMs && fault.toMs >= withdrawal.fromMs;
}

function findingOf(rule: string, withdrawal: Withdrawal, records: readonly string[]): Finding {
  return { rule, thread: withdrawal.thread, records: [describeWithdrawal(withdrawal), ...records] };
}
