/**
 * Writes the dashboards: `npm run dashboards`. The files that it writes are what people import or provision; they are checked
 * in, and a test fails when they are not what this would write.
 *
 * - boards/         what is on each dashboard
 * - panels.ts       how a panel looks
 * - queries.ts      what queries are made of
 * - trace-links.ts  from a point on a panel to its traces
 * - variables.ts    data sources, cluster, namespace, job, pod
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { delivery } from './boards/delivery.ts';
import { lifecycle } from './boards/lifecycle.ts';
import { overview } from './boards/overview.ts';
import { ownership } from './boards/ownership.ts';
import { runtime } from './boards/runtime.ts';
import { dashboard } from './dashboard.ts';

export const directory = join(import.meta.dirname, 'json');

/** Text by file name. */
export function generate(): Record<string, string> {
  const boards = [overview, ownership, delivery, lifecycle, runtime];
  return Object.fromEntries(boards.map(board => [`${board.uid}.json`, `${JSON.stringify(dashboard(board), null, 2)}\n`]));
}

if (import.meta.main) {
  mkdirSync(directory, { recursive: true });
  for (const [name, text] of Object.entries(generate())) writeFileSync(join(directory, name), text);
}
