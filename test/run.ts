/**
 * What `npm test` runs: everything that needs no cluster. It sees to the programs that tests start themselves, then checks types
 * and lint and runs all tests. The last line is `<n> passed, <n> failed`; types and lint count as one each.
 */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

interface Counts {
  passed: number;
  failed: number;
}

interface VitestReport {
  success: boolean;
  numPassedTests: number;
  numFailedTests: number;
  testResults: { name: string; status: string; assertionResults: { status: string }[] }[];
}

/** Programs that tests start, and the Debian packages that have them. */
const programs = { 'redis-server': 'redis-server', prometheus: 'prometheus', promtool: 'prometheus' } as const;

const root = join(import.meta.dirname, '..');
const bin = join(root, 'node_modules', '.bin');
// The Node of the lockfile goes first, however this was started.
const env = { ...process.env, PATH: [bin, process.env['PATH']].join(delimiter) };

function main(): void {
  for (const [program, debianPackage] of Object.entries(programs)) provide(program, debianPackage);
  const counts = [check('types', 'tsc', ['-p', 'tsconfig.json']), check('lint', 'oxlint', ['--type-aware', '--deny-warnings']), tests()];
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

function check(name: string, command: string, args: readonly string[]): Counts {
  console.log(`checking ${name}`);
  const ok = spawnSync(command, args, { stdio: 'inherit', cwd: root, env }).status === 0;
  if (!ok) console.log(`${name} failed`);
  return { passed: ok ? 1 : 0, failed: ok ? 0 : 1 };
}

function tests(): Counts {
  const directory = mkdtempSync(join(tmpdir(), 'signals-tests-'));
  const file = join(directory, 'report.json');
  try {
    const args = ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`];
    const { status } = spawnSync('vitest', args, { stdio: 'inherit', cwd: root, env });
    return countsOf(file, status === 0);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function countsOf(file: string, succeeded: boolean): Counts {
  const report = readReport(file);
  const passed = report?.numPassedTests ?? 0;
  // A file that could not be loaded, or whose hooks failed, has no failed test of its own.
  const broken = report?.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && assertionResults.every(test => test.status !== 'failed'),
  );
  const failed = (report?.numFailedTests ?? 0) + (broken?.length ?? 0);
  // Whatever else made it fail (an unhandled error, a leak, no tests at all) must not look like success.
  return { passed, failed: failed === 0 && !(succeeded && passed > 0) ? 1 : failed };
}

function readReport(file: string): VitestReport | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as VitestReport;
  } catch (error) {
    console.log(`the report of the tests can't be read: ${String(error)}`);
    return undefined;
  }
}

main();
