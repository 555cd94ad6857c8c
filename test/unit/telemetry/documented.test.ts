/** People read of metrics and spans in the README: what is shown is named there, and what is named there is shown. */

import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { metricTable, spanNames } from '../../../src/telemetry/names.ts';

const root = join(import.meta.dirname, '../../..');
const section = /^## Metrics and traces\n(.*?)^## /ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))?.[1] ?? '';
const named = new Set([...section.matchAll(/`([a-z]+(?:[._][a-z0-9]+)+)`/g)].map(match => match[1]));

/** Of parts that make their own: they take no more than the API. */
const madeElsewhere = globSync(join(root, 'src/redis/**/*.ts')).flatMap(file =>
  [...readFileSync(file, 'utf8').matchAll(/\.create\w+\('([a-z._]+)'/g)].map(match => match[1]),
);

test('every metric and every span is in the README, and nothing else is', () => {
  expect(madeElsewhere.length).toBeGreaterThan(5);
  const shown = [...Object.values(metricTable).map(metric => metric.name), ...madeElsewhere, ...Object.values(spanNames)];
  expect(named).toEqual(new Set(shown));
});
