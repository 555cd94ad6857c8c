/** Reads what the recording agent noted, and says what the guarantees say about it. */

import { Redis } from 'ioredis';

import type { RunRecord } from './agents/recording-agent.ts';

export async function readRecords(redisUrl: string): Promise<RunRecord[]> {
  const redis = new Redis(redisUrl);
  const rows = await redis.lrange('records', 0, -1);
  redis.disconnect();
  return rows.map(row => JSON.parse(row) as RunRecord);
}

export interface HistoryReport {
  /** Signals that ran, by thread, in the order in which they ran for the first time. */
  firstRuns: Map<string, string[]>;
  /** Signals that ran more than once: `thread text`. */
  repeated: string[];
  /** A record of another run between a run's start and its end, where both were alive. */
  overlaps: string[];
  /** A run whose token is not above that of the run before it. */
  tokenSteps: string[];
  /** Signals run again with an attempt of 1. */
  uncountedRepeats: string[];
}

/** `mayDie` are processes whose runs may have no end. */
export function reportOn(records: readonly RunRecord[], mayDie: ReadonlySet<number> = new Set()): HistoryReport {
  const report: HistoryReport = { firstRuns: new Map(), repeated: [], overlaps: [], tokenSteps: [], uncountedRepeats: [] };
  const byThread = Map.groupBy(records, record => record.thread);
  for (const [thread, rows] of byThread) {
    checkRuns(thread, rows, mayDie, report);
    const seen = new Set<string>();
    for (const row of rows) {
      if (row.event !== 'signal' || row.text === undefined) continue;
      if (seen.has(row.text)) {
        report.repeated.push(`${thread} ${row.text}`);
        if (row.attempt === 1) report.uncountedRepeats.push(`${thread} ${row.text}`);
      }
      seen.add(row.text);
    }
    report.firstRuns.set(thread, [...seen]);
  }
  return report;
}

function checkRuns(thread: string, rows: readonly RunRecord[], mayDie: ReadonlySet<number>, report: HistoryReport): void {
  let on: RunRecord | undefined;
  let lastToken = 0;
  for (const row of rows) {
    if (row.event === 'start') {
      if (on && !mayDie.has(on.process)) report.overlaps.push(`${thread}: ${row.runId} began during ${on.runId}`);
      if (row.token <= lastToken) report.tokenSteps.push(`${thread}: ${row.token} after ${lastToken}`);
      lastToken = row.token;
      on = row;
    } else if (on?.runId !== row.runId) {
      report.overlaps.push(`${thread}: ${row.event} of ${row.runId} while ${on?.runId ?? 'no run'} was on`);
    }
    if (row.event === 'end') on = undefined;
  }
}
