/** Histories by hand: a few facts, the rest filled in. */

import type { Acceptance, Fault, History, Note, OutputRow, Withdrawal } from '../../chaos/history.ts';

/** Tokens are microseconds of the same clock: a run that is granted at 1000 ms has the token 1_000_000. */
export function note(event: Note['event'], run: string, grantedAtMs: number, atMs: number, rest: Partial<Note> = {}): Note {
  return { event, runId: run, token: grantedAtMs * 1000, atMs, thread: 't', pod: 'a', agent: 'x', attempt: 1, ...rest };
}

/** A run from its start to its end, with 10 ms between its notes. */
export function run(id: string, grantedAtMs: number, signals: readonly string[], rest: Partial<Note> = {}): Note[] {
  const at = (n: number) => grantedAtMs + 10 * (n + 1);
  return [
    note('start', id, grantedAtMs, at(0), rest),
    ...signals.map((signalId, n) => note('signal', id, grantedAtMs, at(n + 1), { ...rest, signalId })),
    note('end', id, grantedAtMs, at(signals.length + 1), rest),
  ];
}

/** As if one sender had sent these one after the other. */
export function accepted(ids: readonly string[], rest: Partial<Acceptance> = {}): Acceptance[] {
  return ids.map((id, at) => ({
    id, thread: 't', sender: 's', order: at + 1, agent: 'x', turn: 'current', action: 'deliver', tries: 1, fromMs: 900 + at, atMs: 900 + at, ...rest,
  }));
}

export function fault(fromMs: number, toMs: number, pod?: string): Fault {
  return { kind: 'SIGKILL', fromMs, toMs, ...(pod === undefined ? {} : { pod }) };
}

export function history(facts: Partial<History>): History {
  return {
    notes: [], given: [], withdrawals: [], acceptances: [], unanswered: new Set(), deadLettered: new Set(), faults: [], stalls: [], output: [], leftovers: [], ...facts,
  };
}

/** An abort of whatever is on, answered at once. */
export function abort(atMs: number, stopped?: string, rest: Partial<Withdrawal> = {}): Withdrawal {
  return { thread: 't', pod: 'b', stops: 'any', signalIds: [], fromMs: atMs, toMs: atMs, answer: { withdrawn: [], ...(stopped === undefined ? {} : { stopped }) }, ...rest };
}

/** A cancel of all that waits, answered at once. */
export function cancel(atMs: number, withdrawn: readonly string[], rest: Partial<Withdrawal> = {}): Withdrawal {
  return { thread: 't', pod: 'b', fromMs: atMs, toMs: atMs, answer: { withdrawn }, ...rest };
}

/** The last chunk of a run that was stopped on request. */
export function stopped(runId: string): OutputRow {
  return { thread: 't', runId, type: 'abort', reason: 'aborted' };
}
