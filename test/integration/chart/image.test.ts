import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { deployment, render } from './manifests.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const lines = readFileSync(join(root, 'Dockerfile'), 'utf8').replaceAll('\\\n', ' ').split('\n');
const final = lines.slice(lines.findLastIndex(line => line.startsWith('FROM ')));

test('the image begins with nothing, and runs Node as process 1 under the user of the chart', () => {
  expect(final[0]).toBe('FROM scratch');
  expect(final.some(line => line.startsWith('RUN '))).toBe(false);
  const entrypoint = final.find(line => line.startsWith('ENTRYPOINT '))?.slice('ENTRYPOINT '.length) ?? '';
  expect((JSON.parse(entrypoint) as string[])[0]).toBe('/usr/local/bin/node');
  const { runAsUser, runAsGroup } = deployment(render({})).template.spec.securityContext ?? {};
  expect(final).toContain(`USER ${String(runAsUser)}:${String(runAsGroup)}`);
});

test('the base is the same argument for all that build it', () => {
  const bases = lines.filter(line => line.startsWith('FROM ') && line !== 'FROM scratch');
  expect(bases.length).toBeGreaterThan(0);
  for (const base of bases) expect(base).toMatch(/^FROM \$\{NODE_IMAGE\} AS /);
});

test('what is copied is in the context, and little else is', () => {
  const context = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n').filter(line => line.startsWith('!')).map(line => line.slice(1));
  const copied = lines.filter(line => line.startsWith('COPY ') && !line.includes('--from=')).flatMap(line => line.split(' ').slice(1, -1));
  expect([...new Set(copied)].toSorted()).toEqual(context.toSorted());
  for (const path of copied) expect(existsSync(join(root, path)), path).toBe(true);
});
