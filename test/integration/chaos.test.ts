/** Two minutes of chaos with fixed seeds; `npm run test:chaos` runs for as long as it is told to, with any seed. */

import { expect, test } from 'vitest';

import { runChaos } from '../chaos/chaos.ts';
import { describeFinding } from '../chaos/finding.ts';
import { defaults } from '../chaos/options.ts';

// The second one once found a fault.
test.each([defaults.seed, 21])('pods under faults at random run every accepted signal, in order, on one pod at a time (seed %i)', { timeout: 300_000 }, async seed => {
  const said: string[] = [];
  const { verdict } = await runChaos({ ...defaults, seed, seconds: 60 }, text => void said.push(text));
  const found = [verdict.violations, verdict.lost, verdict.orderBreaks].map(findings => findings.map(describeFinding));
  expect(found, said.join('\n')).toEqual([[], [], []]);
  // Otherwise it has shown nothing.
  expect(verdict.accepted).toBeGreaterThan(300);
  expect(verdict.faults).toBeGreaterThan(15);
});
