import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { leaseSettingNames, leaseVariables, parseLeaseSettings } from '../../../src/settings/lease-settings.ts';
import type { Logger, LogFields } from '../../../src/core/logger.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { SettingsStore } from '../../../src/settings/settings-store.ts';
import type { SettingsSource } from '../../../src/settings/settings-store.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const ttl = 'MASTRA_AGENT_THREAD_LEASE_TTL_MS';
const interval = 'MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS';
const sweep = 'MASTRA_AGENT_THREAD_LEASE_SWEEP_INTERVAL_MS';

function recordingLogger(): { logger: Logger; errors: { message: string; fields: LogFields | undefined }[] } {
  const errors: { message: string; fields: LogFields | undefined }[] = [];
  return { errors, logger: { ...silentLogger, error: (message, fields) => void errors.push({ message, fields }) } };
}

describe('settings store', () => {
  test('tuning goes before chart, chart before environment, environment before default', () => {
    const store = new SettingsStore({ clock: new FakeClock() });
    expect(store.current().sources).toMatchObject({ ttlMs: 'default', sweepIntervalMs: 'default' });
    store.apply('tuning', { [ttl]: '30000' });
    store.apply('chart', { [ttl]: '20000', [sweep]: '2000' });
    store.apply('environment', { [ttl]: '10000', [sweep]: '3000', [interval]: '3000' });
    const { values, sources } = store.current();
    expect(values).toMatchObject({ ttlMs: 30_000, sweepIntervalMs: 2000, renewIntervalMs: 3000, drainTimeoutMs: 25_000 });
    expect(sources).toEqual({
      ttlMs: 'tuning',
      sweepIntervalMs: 'chart',
      renewIntervalMs: 'environment',
      driftMs: 'default',
      drainTimeoutMs: 'default',
      logLevel: 'default',
    });
  });

  test('a value that a source no longer gives falls back to the next source', () => {
    const store = new SettingsStore();
    store.apply('chart', { [ttl]: '20000' });
    store.apply('tuning', { [ttl]: '30000' });
    expect(store.apply('tuning', {}).status).toBe('applied');
    expect(store.current()).toMatchObject({ values: { ttlMs: 20_000 }, sources: { ttlMs: 'chart' } });
  });

  test('C1.1, C1.3: a bad edit changes nothing, is logged as an error and stays readable', () => {
    const { logger, errors } = recordingLogger();
    const store = new SettingsStore({ clock: new FakeClock(), logger });
    store.apply('tuning', { [ttl]: '30000' });
    const outcome = store.apply('tuning', { [ttl]: '40000', [sweep]: '1s' });
    expect(outcome).toMatchObject({ status: 'rejected', problems: [{ variable: sweep, value: '1s' }] });
    expect(store.current()).toMatchObject({
      values: { ttlMs: 30_000, sweepIntervalMs: 1000 },
      lastRefusal: { source: 'tuning', at: '2023-11-14T22:13:20.000Z', standing: true, problems: [{ variable: sweep }] },
    });
    expect(errors).toHaveLength(1);
    expect(JSON.stringify(errors[0])).toContain(`${sweep} must be a whole number of milliseconds, 100 to 60000`);
    store.apply('tuning', { [ttl]: '40000', [sweep]: '1000' });
    expect(store.current()).toMatchObject({ values: { ttlMs: 40_000 }, lastRefusal: { standing: false } });
  });

  test('C1.4: a good edit of one source comes into effect while another is wrong', () => {
    const store = new SettingsStore();
    store.apply('tuning', { [sweep]: '2000' });
    store.apply('tuning', { [sweep]: 'often' });
    expect(store.apply('chart', { [ttl]: '20000' }).status).toBe('applied');
    expect(store.current()).toMatchObject({
      values: { ttlMs: 20_000, sweepIntervalMs: 2000 },
      lastRefusal: { source: 'tuning', standing: true },
    });
  });

  test('C1.5: what was refused only beside another value comes into effect when they fit', () => {
    const store = new SettingsStore();
    store.apply('chart', { [ttl]: '5000' });
    expect(store.apply('tuning', { [interval]: '9000' }).status).toBe('rejected');
    expect(store.apply('chart', { [ttl]: '20000' }).status).toBe('applied');
    expect(store.current()).toMatchObject({
      values: { ttlMs: 20_000, renewIntervalMs: 9000 },
      sources: { renewIntervalMs: 'tuning' },
      lastRefusal: { standing: false },
    });
  });

  test('of two refusals the one that still stands is the one shown', () => {
    const store = new SettingsStore();
    store.apply('tuning', { [sweep]: 'often' });
    store.apply('chart', { [ttl]: 'long' });
    store.apply('chart', { [ttl]: '20000' });
    expect(store.current().lastRefusal).toMatchObject({ source: 'tuning', standing: true });
  });

  test('listeners hear of each change once, and of nothing else', () => {
    const store = new SettingsStore();
    const heard: number[] = [];
    const stop = store.onChange(({ values }) => heard.push(values.ttlMs));
    store.apply('chart', { [ttl]: '20000' });
    expect(store.apply('chart', { [ttl]: ' 20000 ' }).status).toBe('unchanged');
    store.apply('chart', { [ttl]: '20s' });
    store.apply('chart', { [ttl]: '30000' });
    stop();
    store.apply('chart', { [ttl]: '40000' });
    expect(heard).toEqual([20_000, 30_000]);
    expect(store.current().revision).toBe(3);
  });

  test('C1.6: a listener that throws does not keep the others from hearing', () => {
    const { logger, errors } = recordingLogger();
    const store = new SettingsStore({ logger });
    const heard: number[] = [];
    store.onChange(() => {
      throw new Error('broken');
    });
    store.onChange(({ values }) => heard.push(values.ttlMs));
    expect(store.apply('chart', { [ttl]: '20000' }).status).toBe('applied');
    expect(heard).toEqual([20_000]);
    expect(errors).toHaveLength(1);
  });

  test('a change of the object that a source gave has no effect', () => {
    const store = new SettingsStore();
    const values: Record<string, string> = { [ttl]: '20000' };
    store.apply('chart', values);
    values[ttl] = 'broken';
    expect(store.apply('tuning', { [sweep]: '2000' }).status).toBe('applied');
    expect(store.current().values.ttlMs).toBe(20_000);
  });

  test('C1: after any sequence of edits the set in effect is valid, and each value is one that its source gave', () => {
    const text = fc.constantFrom(undefined, '1000', '5000', '9000', '20000', '600000', '0', '15s', '');
    const values = fc.record(Object.fromEntries(Object.values(leaseVariables).map(variable => [variable, text])));
    const edits = fc.array(fc.tuple(fc.constantFrom<SettingsSource>('tuning', 'chart', 'environment'), values), { maxLength: 12 });
    fc.assert(
      fc.property(edits, sequence => {
        const store = new SettingsStore();
        for (const [at, [source, given]] of sequence.entries()) {
          const before = store.current();
          const { status } = store.apply(source, given);
          const { values: effective, sources } = store.current();
          if (status === 'rejected') expect(effective).toBe(before.values);
          const asText = Object.fromEntries(leaseSettingNames.map(name => [leaseVariables[name], String(effective[name])]));
          expect(parseLeaseSettings(asText)).toEqual({ ok: true, settings: effective });
          for (const name of leaseSettingNames) {
            const from = sources[name];
            if (from === 'default') continue;
            const gave = sequence.slice(0, at + 1).filter(([other]) => other === from);
            expect(gave.map(([, held]) => held[leaseVariables[name]])).toContain(String(effective[name]));
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});
