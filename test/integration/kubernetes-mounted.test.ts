/** The real runtime, with its settings in a directory as kubelet mounts a ConfigMap. */

import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const TTL = 'MASTRA_AGENT_THREAD_LEASE_TTL_MS';
const RENEW = 'MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS';

interface Report {
  effective: Record<string, { value: number; source: string }>;
  lastRefusal?: { source: string; problems: string[] };
}

let root: string;
let pod: RuntimeProcess | undefined;
let swaps = 0;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'signals-settings-'));
  for (const source of ['chart', 'tuning']) mkdirSync(join(root, source));
});

afterEach(async () => {
  await pod?.destroy();
  pod = undefined;
  rmSync(root, { recursive: true, force: true });
});

/** As kubelet does it: a new directory, and the link to it renamed over the old one. */
function mount(source: 'chart' | 'tuning', values: Record<string, string>): void {
  const directory = join(root, source);
  const target = `..set_${++swaps}`;
  mkdirSync(join(directory, target));
  for (const [name, value] of Object.entries(values)) writeFileSync(join(directory, target, name), value);
  symlinkSync(target, join(directory, '..data_tmp'));
  renameSync(join(directory, '..data_tmp'), join(directory, '..data'));
}

async function settings(): Promise<Report> {
  return (await (await fetch(`${pod?.url}/v1/settings`)).json()) as Report;
}

async function metric(name: string): Promise<string | undefined> {
  const text = await (await fetch(`${pod?.metricsUrl}/metrics`)).text();
  return text.split('\n').find(line => line.startsWith(name))?.split(' ').at(-1);
}

test('case 45: of two edits the right one is in effect, and it can be seen why the other is not', async () => {
  mount('chart', { [TTL]: '20000' });
  mount('tuning', {});
  const directories = { SETTINGS_DIR: join(root, 'chart'), SETTINGS_TUNING_DIR: join(root, 'tuning') };
  pod = await startRuntime({ name: 'a', env: { ...directories, [TTL]: '16000' } });
  // From the first moment on: nothing ran on other settings.
  expect((await settings()).effective[TTL]).toEqual({ value: 20_000, source: 'chart' });

  mount('tuning', { [TTL]: '30000', [RENEW]: '5000' });
  await until('the right one is in effect', async () => (await settings()).effective[TTL]?.value === 30_000);
  expect(await metric('signals_lease_ttl_seconds')).toBe('30');

  // Right by itself, wrong together with the other: half of a set never takes effect.
  mount('tuning', { [TTL]: '30000', [RENEW]: '20000' });
  await until('the refusal can be seen', async () => (await settings()).lastRefusal !== undefined);
  const { effective, lastRefusal } = await settings();
  expect(effective[TTL]?.value).toBe(30_000);
  expect(effective[RENEW]?.value).toBe(5000);
  expect(lastRefusal?.source).toBe('tuning');
  expect(lastRefusal?.problems).toHaveLength(1);
  expect(lastRefusal?.problems[0]).toContain(`${RENEW} must be a whole number of milliseconds, 100 to 15000`);
  expect(pod.logs().filter(line => line.includes('settings refused'))).toHaveLength(1);

  mount('chart', { [TTL]: '60000' });
  mount('tuning', {});
  await until('the chart counts where the tuning says nothing', async () => (await settings()).effective[TTL]?.value === 60_000);
  expect((await settings()).effective[RENEW]).toEqual({ value: 20_000, source: 'default' });
});

test('a directory that is not there costs nothing but a line in the log', async () => {
  pod = await startRuntime({ name: 'a', env: { SETTINGS_DIR: join(root, 'nowhere'), [TTL]: '16000' } });
  expect((await settings()).effective[TTL]).toEqual({ value: 16_000, source: 'environment' });
  expect(pod.logs().filter(line => line.includes('could not be read from the directory'))).toHaveLength(1);
});

test('case 46: the log level changes while it runs, with the rest of its set', async () => {
  mount('tuning', { LOG_LEVEL: 'error' });
  pod = await startRuntime({ name: 'a', env: { SETTINGS_TUNING_DIR: join(root, 'tuning'), LOG_LEVEL: 'info' } });
  const applied = () => pod?.logs().filter(line => line.includes('settings applied')) ?? [];
  const ttlIs = (value: number) => until(`the TTL is ${value}`, async () => (await settings()).effective[TTL]?.value === value);
  expect((await settings()).effective['LOG_LEVEL']).toEqual({ value: 'error', source: 'tuning' });

  const before = applied().length;
  mount('tuning', { LOG_LEVEL: 'error', [TTL]: '20000' });
  await ttlIs(20_000);
  mount('tuning', { LOG_LEVEL: 'loud', [TTL]: '30000' });
  await until('it is refused', async () => (await settings()).lastRefusal?.problems[0]?.startsWith('LOG_LEVEL must be one of'));
  expect((await settings()).effective[TTL]?.value).toBe(20_000);
  expect(applied()).toHaveLength(before);
  mount('tuning', { [TTL]: '40000' }); // the environment's level again
  await ttlIs(40_000);
  mount('tuning', { [TTL]: '50000' });
  await ttlIs(50_000);
  await until('what is said at that level is said', () => applied().at(-1)?.includes('"ttlMs":50000'));
});

test('a drain timeout that SIGKILL would cut off is refused: at start, and when it is edited', async () => {
  const drain = 'MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS';
  const grace = { TERMINATION_GRACE_MS: '30000' }; // 18 s of it are the stop's own
  await expect(startRuntime({ name: 'a', env: { ...grace, [drain]: '12001' } })).rejects.toThrow(
    `${drain} must be a whole number of milliseconds, 1 to 12000 (what TERMINATION_GRACE_MS leaves for it), got "12001"`,
  );
  mount('tuning', { [drain]: '12001', [TTL]: '20000' });
  pod = await startRuntime({ name: 'a', env: { ...grace, SETTINGS_TUNING_DIR: join(root, 'tuning') } });
  await until('the refusal can be seen', async () => (await settings()).lastRefusal !== undefined);
  expect((await settings()).effective).toMatchObject({ [drain]: { value: 12_000, source: 'default' }, [TTL]: { source: 'default' } });
  mount('tuning', { [drain]: '12000', [TTL]: '20000' });
  await until('one that fits is in effect', async () => (await settings()).effective[TTL]?.value === 20_000);
});
