/** S1, S2 and S4 in a history: every accepted signal runs, in order, and is repeated only where a fault explains it. */

import type { Finding } from './finding.ts';
import { describeFault, describeNote, describeWithdrawal } from './history.ts';
import type { Acceptance, Fault, History, Note } from './history.ts';
import { withdrawnIn } from './withdrawals.ts';

/** For how long after a fault things may still go wrong because of it: leases end, connections come back. */
const aftermathMs = 5000;

export function findLost(history: History): Finding[] {
  const { notes, acceptances, deadLettered } = history;
  const ran = new Set(notes.map(note => note.signalId));
  const withdrawn = withdrawnIn(history);
  return acceptances
    .filter(({ id, action }) => action !== 'discard' && !ran.has(id) && !deadLettered.has(id))
    .filter(acceptance => !withdrawn(acceptance))
    .map(acceptance => ({ rule: 'an accepted signal never ran', thread: acceptance.thread, records: [describe(acceptance), ...whatCameAfter(history, acceptance)] }));
}

/** What is asked first about one that was lost. */
function whatCameAfter({ notes, withdrawals }: History, { thread, atMs }: Acceptance): string[] {
  const taken = withdrawals.filter(one => one.thread === thread && one.toMs >= atMs).slice(0, 5);
  const ran = notes.filter(note => note.thread === thread && note.atMs >= atMs && note.event === 'start').slice(0, 5);
  return [...taken.map(describeWithdrawal), ...ran.map(describeNote)];
}

/** The notes of each signal that ran more than once. */
export function repeatedSignals(notes: readonly Note[]): Map<string, Note[]> {
  const bySignal = Map.groupBy(notes.filter(note => note.event === 'signal'), note => note.signalId ?? '');
  return new Map([...bySignal].filter(([, rows]) => rows.length > 1));
}

/** Each run of a signal against what its sender was told. */
export function checkRuns({ notes, acceptances, unanswered }: History): Finding[] {
  const known = new Map(acceptances.map(acceptance => [acceptance.id, acceptance]));
  return notes.flatMap(note => {
    if (note.signalId === undefined) return [];
    const acceptance = known.get(note.signalId);
    const rule = wrongRun(note, acceptance, unanswered);
    return rule === undefined ? [] : [findingOf(rule, [note], acceptance)];
  });
}

function wrongRun(note: Note, acceptance: Acceptance | undefined, unanswered: ReadonlySet<string>): string | undefined {
  if (!acceptance) return unanswered.has(note.signalId ?? '') ? undefined : 'a signal ran that nobody sent';
  if (acceptance.thread !== note.thread) return 'a signal ran on another thread';
  if (acceptance.agent !== note.agent) return 'a signal was run by another agent';
  return acceptance.action === 'discard' ? 'a signal ran that was discarded' : undefined;
}

/** Each repeat against what may cause one. */
export function checkRepeats({ notes, acceptances, faults, stalls }: History): Finding[] {
  const known = new Map(acceptances.map(acceptance => [acceptance.id, acceptance]));
  return [...repeatedSignals(notes)].flatMap(([id, rows]) =>
    rows.slice(1).flatMap((row, at) => {
      const before = rows[at] as Note;
      const rule = wrongRepeat(before, row, [...faults, ...stalls]);
      return rule === undefined ? [] : [findingOf(rule, [before, row], known.get(id))];
    }),
  );
}

function wrongRepeat(first: Note, second: Note, faults: readonly Fault[]): string | undefined {
  if (first.runId === second.runId) return 'a signal ran twice in one run';
  if (second.attempt === 1) return 'a signal was repeated and not counted';
  return explains(faults, first, second) ? undefined : 'a signal was repeated without a fault';
}

function findingOf(rule: string, rows: readonly Note[], acceptance: Acceptance | undefined): Finding {
  return { rule, thread: rows[0]?.thread ?? '', records: [...rows.map(describeNote), ...(acceptance ? [describe(acceptance)] : [])] };
}

/** Whether a fault of the first run's pod, or of all, lies between the two runs. */
function explains(faults: readonly Fault[], first: Note, second: Note): boolean {
  const hit = (fault: Fault) => fault.pod === undefined || fault.pod === first.pod;
  return faults.some(fault => hit(fault) && fault.fromMs <= second.atMs && fault.toMs + aftermathMs >= first.atMs);
}

/** What one sender sent to one agent of a thread one after the other runs in that order: messages among each other, and queued turns. */
export function checkOrder({ notes, acceptances, faults }: History): Finding[] {
  const firstRun = new Map<string, FirstRun>();
  for (const [at, note] of notes.entries()) {
    if (note.signalId !== undefined && !firstRun.has(note.signalId)) firstRun.set(note.signalId, { at, note });
  }
  const streams = Map.groupBy(acceptances, ({ thread, sender, agent, turn }) => `${thread} ${sender} ${agent} ${turn}`);
  return [...streams.values()].flatMap(stream => {
    const ran = stream.toSorted((a, b) => a.order - b.order).flatMap(acceptance => {
      const run = firstRun.get(acceptance.id);
      return run ? [{ acceptance, run }] : [];
    });
    return ran.slice(1).flatMap((later, at) => {
      const earlier = ran[at] as { acceptance: Acceptance; run: FirstRun };
      return later.run.at < earlier.run.at ? [orderBreak(earlier, later, faults)] : [];
    });
  });
}

interface FirstRun {
  readonly at: number;
  readonly note: Note;
}

type Ran = Readonly<{ acceptance: Acceptance; run: FirstRun }>;

function orderBreak(earlier: Ran, later: Ran, faults: readonly Fault[]): Finding {
  const fromMs = later.run.note.atMs - aftermathMs;
  const around = faults.filter(fault => fault.fromMs <= earlier.run.note.atMs && fault.toMs >= fromMs);
  return {
    rule: `a later signal (${later.acceptance.turn}) ran first`,
    thread: later.acceptance.thread,
    records: [
      describe(earlier.acceptance), describe(later.acceptance), describeNote(later.run.note), describeNote(earlier.run.note),
      ...around.map(describeFault),
    ],
  };
}

function describe({ id, sender, order, turn, action, tries, atMs }: Acceptance): string {
  return `${new Date(atMs).toISOString().slice(11, 23)} ${sender} was told ${action} for ${id} (${turn}, its number ${order}, after ${tries} tries)`;
}
