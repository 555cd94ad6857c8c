/** A short chaos run with a fixed seed; `npm run test:chaos` runs as long as it is told to, with any seed. */

import { expect, test } from 'vitest';

import { runChaos } from '../chaos/chaos.ts';
import { describeFinding } from '../chaos/finding.ts';
import { defaults } from '../chaos/options.ts';

test('pods under faults at random run every accepted signal, in order, on one pod at a time', { timeout: 300_000 }, async () => {
  const said: string[] = [];
  const { verdict } = await runChaos({ ...defaults, seconds: 20, threads: 16 }, text => void said.push(text));
  const found = [verdict.violations, verdict.lost, verdict.orderBreaks].map(findings => findings.map(describeFinding));
  expect(found, said.join('\n')).toEqual([[], [], []]);
  // Otherwise it has shown nothing.
  expect(verdict.accepted).toBeGreaterThan(50);
  expect(verdict.faults).toBeGreaterThan(5);
});
