/** L1 and L5 in a history: whoever owns a thread acts alone, and tokens only grow. */

import type { Finding } from './finding.ts';
import { describeNote } from './history.ts';
import type { Note } from './history.ts';

interface RunOfThread {
  readonly runId: string;
  readonly token: number;
  readonly notes: Note[];
}

export function checkOwnership(notes: readonly Note[]): Finding[] {
  const byThread = Map.groupBy(notes, note => note.thread);
  return [...byThread].flatMap(([thread, rows]) => {
    const runs = runsOf(rows);
    return [...checkTokens(thread, rows, runs), ...checkActing(thread, runs)];
  });
}

function runsOf(rows: readonly Note[]): RunOfThread[] {
  const byRun = Map.groupBy(rows, note => note.runId);
  return [...byRun].map(([runId, notes]) => ({ runId, token: notes[0]?.token ?? 0, notes })).sort((a, b) => a.token - b.token);
}

/** When the lease of a run was granted, at the earliest. */
function grantedAtMs(run: RunOfThread): number {
  return run.token / 1000;
}

/**
 * A run may act until its lease is another's: a note after the grant of a later token shows two owners at once. It counts
 * when the agent looked, not when the note arrived: what was on its way when the process froze was let go in time.
 */
function checkActing(thread: string, runs: readonly RunOfThread[]): Finding[] {
  return runs.flatMap((run, at) => {
    const next = runs.slice(at + 1).find(({ token }) => token > run.token);
    if (!next) return [];
    const late = run.notes.filter(note => note.atMs > grantedAtMs(next));
    if (late.length === 0) return [];
    const grant = `run ${next.runId} was granted token ${next.token} at ${new Date(grantedAtMs(next)).toISOString().slice(11, 23)}`;
    return [{ rule: 'a run acted after the grant of its successor', thread, records: [grant, ...late.map(describeNote)] }];
  });
}

function checkTokens(thread: string, rows: readonly Note[], runs: readonly RunOfThread[]): Finding[] {
  const same = runs.flatMap((run, at) => {
    const before = runs[at - 1];
    const shared = before?.token === run.token ? [before, run].flatMap(({ notes }) => notes.slice(0, 1)) : [];
    return shared.length > 0 ? [{ rule: 'two runs with the same token', thread, records: shared.map(describeNote) }] : [];
  });
  return [...runs.flatMap(run => checkRun(thread, run)), ...same, ...checkGrowth(thread, rows)];
}

function checkRun(thread: string, { notes, token }: RunOfThread): Finding[] {
  const starts = notes.filter(note => note.event === 'start');
  const rules = [
    starts.length === 1 && notes[0]?.event === 'start' ? undefined : 'a run began twice, or acted without a beginning',
    token > 0 ? undefined : 'a run without a token',
    notes.every(note => note.token === token) ? undefined : 'the token of a run changed',
  ];
  return rules.flatMap(rule => (rule === undefined ? [] : [{ rule, thread, records: notes.map(describeNote) }]));
}

function checkGrowth(thread: string, rows: readonly Note[]): Finding[] {
  const findings: Finding[] = [];
  let highest: Note | undefined;
  for (const note of rows) {
    if (note.event !== 'start') continue;
    // A start that was on its way when its process froze may arrive late; it was not made late.
    if (highest && note.token < highest.token && note.atMs > highest.atMs) {
      findings.push({ rule: 'a later run has a lower token', thread, records: [highest, note].map(describeNote) });
    }
    if (!highest || note.token > highest.token) highest = note;
  }
  return findings;
}
