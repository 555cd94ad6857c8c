/** `npm run test:chaos`: a chaos run on the command line. The last line is the result; the exit code says whether it is clean. */

import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { runChaos } from './chaos.ts';
import type { ChaosResult } from './chaos.ts';
import { isClean } from './checker.ts';
import { describeFinding } from './finding.ts';
import { parseOptions } from './options.ts';
import { describeTakeover, longestTakeover } from './takeover.ts';

/** Findings printed of each kind: the first ones tell the most. */
const mostPrinted = 20;

const options = parseOptions(process.argv.slice(2));
const startedAt = performance.now();
const say = (text: string) => process.stderr.write(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(7)} s  ${text}\n`);

say(`chaos with ${JSON.stringify(options)}`);
const result = await runChaos(options, say);
const { verdict } = result;
const longest = longestTakeover(result.history);
const { violations, lost, orderBreaks } = verdict;
for (const [title, findings] of [['violations', violations], ['lost', lost], ['order breaks', orderBreaks]] as const) {
  if (findings.length === 0) continue;
  process.stdout.write(`\n${findings.length} ${title}\n`);
  for (const finding of findings.slice(0, mostPrinted)) process.stdout.write(`${describeFinding(finding)}\n`);
}
if (longest) say(`the longest ${describeTakeover(longest)}`);
say(deadLettersOf(result));
if (options.keep || !isClean(verdict)) process.stdout.write(`\neverything is in ${keep(result)}\n`);
const line = JSON.stringify({
  ...verdict,
  violations: violations.length,
  lost: lost.length,
  orderBreaks: orderBreaks.length,
  seed: options.seed,
});
// Sockets that a fault left half-open must not keep a run that is over.
process.stdout.write(`${line}\n`, () => process.exit(isClean(verdict) ? 0 : 1));

/** Given to too many runs that died: allowed, and worth knowing when none of them got to do anything. */
function deadLettersOf({ history: { notes, deadLettered } }: ChaosResult): string {
  const ran = new Set(notes.map(note => note.signalId));
  const unseen = [...deadLettered].filter(id => !ran.has(id));
  return `${deadLettered.size} dead letters, ${unseen.length} of them of signals that never ran ${unseen.slice(0, 5).join(' ')}`.trimEnd();
}

/** Writes down what a finding needs to be understood. */
function keep({ history, logs, verdict }: ChaosResult): string {
  const directory = mkdtempSync(join(tmpdir(), 'signals-chaos-'));
  const sets = (_: string, value: unknown) => (value instanceof Set ? [...value] : value);
  writeFileSync(join(directory, 'history.json'), JSON.stringify(history, sets, 1));
  writeFileSync(join(directory, 'verdict.json'), JSON.stringify(verdict, undefined, 1));
  writeFileSync(join(directory, 'pods.log'), logs.join('\n'));
  return directory;
}
