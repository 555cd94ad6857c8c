/**
 * What `npm test` runs: everything that needs no cluster. It sees to the programs that tests start themselves, then checks types
 * and lint and runs all tests. The last line is `<n> passed, <n> failed`; types and lint count as one each.
 */

import { spawnSync } from 'node:child_process';
import { delimiter, join } from 'node:path';

import { missingBuilds, missingPackages } from './cluster/programs.ts';
import { runVitest } from './support/vitest-report.ts';
import type { Counts } from './support/vitest-report.ts';

/** Programs that tests start, and the Debian packages that have them. */
const programs = { 'redis-server': 'redis-server', prometheus: 'prometheus', promtool: 'prometheus', openssl: 'openssl' } as const;

const root = join(import.meta.dirname, '..');
const bin = join(root, 'node_modules', '.bin');
// The Node of the lockfile goes first, however this was started.
const env = { ...process.env, PATH: [bin, process.env['PATH']].join(delimiter) };

function main(): void {
  for (const [program, debianPackage] of Object.entries(programs)) provide(program, debianPackage);
  const counts = [
    check('types', 'tsc', ['-p', 'tsconfig.json']),
    check('lint', 'oxlint', ['--type-aware', '--deny-warnings']),
    runVitest([], { cwd: root, env }),
    ...clusterTests(),
  ];
  const passed = counts.reduce((sum, count) => sum + count.passed, 0);
  const failed = counts.reduce((sum, count) => sum + count.failed, 0);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}

/** Tests start servers on ports of their own, so one that the package itself may start is in nobody's way. */
function provide(program: string, debianPackage: string): void {
  if (isThere(program)) return;
  const canInstall = process.getuid?.() === 0 && isThere('apt-get');
  const tell = `${program} is needed: install it (Debian, Ubuntu: apt-get install ${debianPackage}) and run this again`;
  if (!canInstall) return giveUp(tell);
  console.log(`installing ${debianPackage}`);
  const apt = (...args: string[]) =>
    spawnSync('apt-get', ['-q', ...args], { stdio: 'inherit', env: { ...env, DEBIAN_FRONTEND: 'noninteractive' } }).status === 0;
  apt('update'); // if that fails, the lists that are there may still do
  apt('install', '-y', '--no-install-recommends', debianPackage);
  if (!isThere(program)) giveUp(tell);
}

function isThere(program: string): boolean {
  return spawnSync(program, ['--version'], { stdio: 'ignore', env }).error === undefined;
}

function giveUp(message: string): never {
  console.error(message);
  process.exit(1);
}

/** A cluster takes longer than all other tests together, so it is only made when asked for. */
function clusterTests(): Counts[] {
  if (process.env['CLUSTER_TESTS'] === '1') return [check('the chart in a cluster', process.execPath, ['test/cluster/run.ts'])];
  const missing = [...missingPackages(), ...missingBuilds()];
  const needs = missing.length > 0 ? `; missing here, and made then: ${missing.join(', ')}` : '';
  console.log(`NOT RUN: the chart in a real cluster (npm run test:cluster, or CLUSTER_TESTS=1${needs})`);
  return [];
}

function check(name: string, command: string, args: readonly string[]): Counts {
  console.log(`checking ${name}`);
  const ok = spawnSync(command, args, { stdio: 'inherit', cwd: root, env }).status === 0;
  if (!ok) console.log(`${name} failed`);
  return { passed: ok ? 1 : 0, failed: ok ? 0 : 1 };
}

main();
