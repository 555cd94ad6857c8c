/** What became of all signals of a scenario, judged as in test/chaos. */

import { judge } from '../chaos/checker.ts';
import type { Verdict } from '../chaos/checker.ts';
import { NoteReader, readStore } from '../chaos/evidence.ts';
import { describeFinding } from '../chaos/finding.ts';
import type { Fault, History, Note } from '../chaos/history.ts';
import { until } from '../support/until.ts';
import type { Release } from './release.ts';
import type { Traffic } from './traffic.ts';

/** Longest wait for rest: the longest run, and whatever waited behind it. */
const restLimitMs = 180_000;

export interface Judged {
  readonly verdict: Verdict;
  readonly notes: readonly Note[];
}

/** Waits until every accepted signal has run and nothing is left of the threads; what has not come to rest by then is judged as it is. */
export async function judgeTraffic(
  { store, notes }: Release, { acceptances, pending }: Pick<Traffic, 'acceptances' | 'pending'>, faults: readonly Fault[] = [],
): Promise<Judged> {
  const reader = new NoteReader(notes.url);
  const threads = [...new Set(acceptances.map(({ thread }) => thread))];
  const look = async (): Promise<History> => ({
    notes: await reader.read(), given: await reader.readGiven(), withdrawals: [], acceptances, unanswered: new Set(pending), faults, stalls: [],
    ...(await readStore(store.url, threads)),
  });
  try {
    let history = await look();
    const atRest = () => {
      const done = new Set(history.notes.map(note => note.signalId));
      return history.leftovers.length === 0 && acceptances.every(({ id }) => done.has(id) || history.deadLettered.has(id));
    };
    await until('everything is at rest', async () => {
      history = await look();
      return atRest();
    }, restLimitMs, 1000).catch(() => {}); // judged as it is
    return { verdict: judge(history), notes: history.notes };
  } finally {
    reader.close();
  }
}

/** In a form that says, when it is not as it should be, what is wrong. */
export function summaryOf({ violations, lost, orderBreaks, duplicates }: Verdict): object {
  return { violations: violations.map(describeFinding), lost: lost.map(describeFinding), orderBreaks: orderBreaks.map(describeFinding), duplicates };
}

export const faultless = { violations: [], lost: [], orderBreaks: [], duplicates: 0 };
