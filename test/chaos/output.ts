/** L6 in a thread's output: runs follow each other, each says that it is over, and nothing is there twice. */

import type { Finding } from './finding.ts';
import type { OutputRow } from './history.ts';

const terminal: ReadonlySet<string> = new Set(['finish', 'error', 'abort']);

export function checkOutput(output: readonly OutputRow[]): Finding[] {
  return [...Map.groupBy(output, row => row.thread)].flatMap(([thread, rows]) => checkThread(thread, rows));
}

function checkThread(thread: string, rows: readonly OutputRow[]): Finding[] {
  const findings: Finding[] = [];
  const find = (rule: string, row: OutputRow) => findings.push({ rule, thread, records: [describe(row)] });
  const begun = new Set<string>();
  const over = new Set<string>();
  const texts = new Set<string>();
  for (const [at, row] of rows.entries()) {
    const before = rows[at - 1];
    if (before && before.runId !== row.runId) {
      if (begun.has(row.runId)) find('output of a run after that of its successor', row);
      if (!over.has(before.runId)) find('a run was followed by another and never said that it was over', before);
    }
    begun.add(row.runId);
    // A run that was over for its readers and died before it settled is repeated, and its successor says so with an error.
    if (over.has(row.runId) && row.type !== 'error') find('output of a run that was over', row);
    if (terminal.has(row.type)) over.add(row.runId);
    const text = `${row.runId} ${row.text}`;
    if (row.text !== undefined && texts.has(text)) find('a chunk is there twice', row);
    texts.add(text);
  }
  const last = rows.at(-1);
  if (last && !over.has(last.runId)) find('the last run never said that it was over', last);
  return findings;
}

function describe({ runId, type, text }: OutputRow): string {
  return `chunk ${type} of run ${runId}${text === undefined ? '' : ` "${text}"`}`;
}
