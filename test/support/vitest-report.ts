/** Runs vitest, and counts what passed and failed by its report. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Counts {
  passed: number;
  failed: number;
}

interface VitestReport {
  success: boolean;
  numPassedTests: number;
  numFailedTests: number;
  testResults: { name: string; status: string; assertionResults: { status: string }[] }[];
}

export interface VitestOptions {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  /** A program, and its arguments, that starts it. */
  readonly launcher?: readonly string[];
}

export function runVitest(args: readonly string[], { cwd, env, launcher = [] }: VitestOptions): Counts {
  const directory = mkdtempSync(join(tmpdir(), 'signals-tests-'));
  const file = join(directory, 'report.json');
  try {
    const [command = '', ...rest] = [...launcher, 'vitest', 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`, ...args];
    const { status } = spawnSync(command, rest, { stdio: 'inherit', cwd, env });
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
