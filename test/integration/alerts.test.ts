/** The alerts as Prometheus' own tool sees them. */

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

const directory = join(import.meta.dirname, '../../deploy/alerts');

function promtool(...args: string[]): { code: number | null; said: string } {
  const { status, stdout, stderr, error } = spawnSync('promtool', args, { cwd: directory, encoding: 'utf8' });
  if (error) throw new Error(`promtool could not be started (Debian: prometheus): ${error.message}`);
  return { code: status, said: `${stdout}${stderr}` };
}

test('the configurations of the local stacks are configurations', () => {
  const deploy = join(directory, '..');
  const local = promtool('check', 'config', join(deploy, 'local/prometheus.yaml'));
  expect(local.code, local.said).toBe(0);
  // As the containers see it: the rules beside it.
  const mounted = mkdtempSync(join(tmpdir(), 'signals-compose-'));
  try {
    copyFileSync(join(deploy, 'compose/prometheus.yaml'), join(mounted, 'prometheus.yml'));
    copyFileSync(join(directory, 'signals-runtime.rules.yaml'), join(mounted, 'signals-runtime.rules.yaml'));
    const compose = promtool('check', 'config', join(mounted, 'prometheus.yml'));
    expect(compose.said).toContain('1 rule files found');
    expect(compose.code, compose.said).toBe(0);
  } finally {
    rmSync(mounted, { recursive: true, force: true });
  }
});

test('the rules are rules', () => {
  const { code, said } = promtool('check', 'rules', 'signals-runtime.rules.yaml');
  expect(said).toMatch(/SUCCESS: \d{2} rules found/);
  expect(code, said).toBe(0);
});

test('each alert fires when it should and only then', () => {
  const files = readdirSync(join(directory, 'tests')).map(file => join('tests', file));
  expect(files.length).toBeGreaterThan(0);
  const { code, said } = promtool('test', 'rules', ...files);
  expect(said).not.toContain('FAILED');
  expect(said.match(/SUCCESS/g)?.length).toBe(files.length);
  expect(code, said).toBe(0);
});
