/**
 * Writes what is deployed for those who watch: `npm run dashboards`. The files that it writes are what people import or provision,
 * and copies of them that travel in the chart; they are checked in, and a test fails when they are not what this would write.
 *
 * - boards/         what is on each dashboard
 * - panels.ts       how a panel looks
 * - queries.ts      what queries are made of
 * - trace-links.ts  from a point on a panel to its traces
 * - variables.ts    data sources, cluster, namespace, job, pod
 * - ../alerts/      the rules and their runbook
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

import { alertRules } from '../alerts/generate.ts';
import { delivery } from './boards/delivery.ts';
import { lifecycle } from './boards/lifecycle.ts';
import { overview } from './boards/overview.ts';
import { ownership } from './boards/ownership.ts';
import { runtime } from './boards/runtime.ts';
import { dashboard } from './dashboard.ts';

export const directory = join(import.meta.dirname, 'json');

const root = join(import.meta.dirname, '../..');
const chartFiles = 'charts/signals-runtime/files';

/** Dashboards: text by file name. */
export function generate(): Record<string, string> {
  const boards = [overview, ownership, delivery, lifecycle, runtime];
  return Object.fromEntries(boards.map(board => [`${board.uid}.json`, `${JSON.stringify(dashboard(board), null, 2)}\n`]));
}

/** Everything that is written: text by path from the root of the project. */
export function generatedFiles(runbookUrl?: string): Record<string, string> {
  const dashboards = Object.entries(generate());
  const rules = 'signals-runtime.rules.yaml';
  return Object.fromEntries([
    ...dashboards.flatMap(([name, text]) => [`deploy/dashboards/json/${name}`, `${chartFiles}/dashboards/${name}`].map(path => [path, text])),
    [`deploy/alerts/${rules}`, alertRules(runbookUrl)],
    // The chart has a value of its own for where the runbook is.
    [`${chartFiles}/alerts/${rules}`, alertRules()],
  ]) as Record<string, string>;
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { 'runbook-url': { type: 'string' } } });
  for (const [path, text] of Object.entries(generatedFiles(values['runbook-url']))) {
    const file = join(root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}
