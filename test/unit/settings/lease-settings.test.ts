import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { logLevels } from '../../../src/core/logger.ts';
import type { LeaseSettings } from '../../../src/leases/settings.ts';
import {
  leaseSettingNames,
  leaseVariables,
  parseLeaseSettings,
  unknownLeaseVariables,
} from '../../../src/settings/lease-settings.ts';
import type { LeaseSettingsSet, SettingValues } from '../../../src/settings/lease-settings.ts';

const ttl = 'MASTRA_AGENT_THREAD_LEASE_TTL_MS';
const interval = 'MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS';
const drift = 'MASTRA_AGENT_THREAD_LEASE_DRIFT_MS';

function accepted(values: SettingValues): LeaseSettingsSet {
  const result = parseLeaseSettings(values);
  if (!result.ok) throw new Error(`refused: ${JSON.stringify(result.problems)}`);
  return result.settings;
}

function refusedVariables(values: SettingValues): string[] {
  const result = parseLeaseSettings(values);
  return result.ok ? [] : result.problems.map(problem => problem.variable);
}

describe('lease settings', () => {
  test('without any variable the documented defaults hold, and fit where leases ask for theirs', () => {
    const settings: LeaseSettings & LeaseSettingsSet = accepted({ UNRELATED: 'x' });
    expect(settings).toEqual({
      ttlMs: 15_000,
      renewIntervalMs: 5000,
      driftMs: 650,
      sweepIntervalMs: 1000,
      drainTimeoutMs: 25_000,
      logLevel: 'info',
    });
  });

  test('what is not given follows the TTL', () => {
    expect(accepted({ [ttl]: '60000' })).toMatchObject({ renewIntervalMs: 20_000, driftMs: 1100 });
    expect(accepted({ [ttl]: '1000' })).toMatchObject({ renewIntervalMs: 333, driftMs: 250 });
  });

  test.each(['15s', '', ' ', '1e4', '15000.5', '0', '-15000', '+15000', '0x3a98', '15 000', '15_000', '999', '600001', '1'.repeat(400), '１５０００', 'NaN', 'null'])(
    'a TTL of %j is refused',
    text => {
      const result = parseLeaseSettings({ [ttl]: text });
      expect(result).toMatchObject({ ok: false, problems: [{ variable: ttl }] });
      if (result.ok) return;
      expect(result.problems[0]?.value).toBe(text.length > 80 ? `${text.slice(0, 80)}...` : text);
      expect(result.problems[0]?.allowed).toContain('1000 to 600000');
    },
  );

  test.each([' 15000 ', '15000\n', '\t15000', '015000', '15000'])('a TTL of %j is 15000', text => {
    expect(accepted({ [ttl]: text }).ttlMs).toBe(15_000);
  });

  test('an interval above half of the TTL and a drift above a quarter are refused, at it they are not', () => {
    expect(refusedVariables({ [ttl]: '5000', [interval]: '9000' })).toEqual([interval]);
    expect(refusedVariables({ [ttl]: '5000', [interval]: '2501', [drift]: '1251' })).toEqual([interval, drift]);
    expect(accepted({ [ttl]: '5000', [interval]: '2500', [drift]: '1250' })).toMatchObject({ renewIntervalMs: 2500 });
  });

  test('all that is wrong is said at once', () => {
    const all = Object.fromEntries(leaseSettingNames.map(name => [leaseVariables[name], '15s']));
    expect(refusedVariables(all)).toEqual(Object.values(leaseVariables));
  });

  test('a wrong TTL does not put blame on an interval that fits another one', () => {
    expect(refusedVariables({ [ttl]: '60s', [interval]: '20000' })).toEqual([ttl]);
  });

  test('a drain that SIGKILL would end is refused, the longest that it would not is taken, and the default fits', () => {
    const drain = leaseVariables.drainTimeoutMs;
    const within = (limitMs: number, values: SettingValues) => parseLeaseSettings(values, { maxDrainTimeoutMs: limitMs });
    const refused = within(7000, { [drain]: '7001' });
    expect(refused).toMatchObject({ ok: false, problems: [{ variable: drain, value: '7001' }] });
    expect(refused.ok ? '' : refused.problems[0]?.allowed).toBe('a whole number of milliseconds, 1 to 7000 (what TERMINATION_GRACE_MS leaves for it)');
    expect(within(7000, { [drain]: '7000' })).toMatchObject({ ok: true, settings: { drainTimeoutMs: 7000 } });
    expect(within(7000, {})).toMatchObject({ ok: true, settings: { drainTimeoutMs: 7000 } });
    expect(within(60_000, {})).toMatchObject({ ok: true, settings: { drainTimeoutMs: 25_000 } });
  });

  test.each(['debug', ' warn\n', 'silent'])('the log level %j is taken', text => {
    expect(accepted({ LOG_LEVEL: text }).logLevel).toBe(text.trim());
  });

  test.each(['loud', '', 'INFO'])('the log level %j is refused', text => {
    expect(refusedVariables({ LOG_LEVEL: text })).toEqual(['LOG_LEVEL']);
  });

  test('a name that is almost one of ours is found', () => {
    expect(unknownLeaseVariables({ MASTRA_AGENT_THREAD_LEASE_TTL: '1', PATH: '/', [ttl]: '5000' })).toEqual([
      'MASTRA_AGENT_THREAD_LEASE_TTL',
    ]);
  });

  test('C1.2: no text throws, and none that breaks the rule takes effect', () => {
    const nearNumber = fc.stringMatching(/^[ \t\n]{0,2}[+-]?[0-9]{0,8}[.e]?[0-9]{0,2}(ms|s)?[ \t\n]{0,2}$/);
    const text = fc.oneof(nearNumber, fc.string({ unit: 'binary' }), fc.nat(700_000).map(String), fc.constant(undefined));
    const values = fc.record(Object.fromEntries(Object.values(leaseVariables).map(variable => [variable, text])));
    fc.assert(
      fc.property(values, given => {
        const result = parseLeaseSettings(given);
        if (!result.ok) {
          expect(result.problems.length).toBeGreaterThan(0);
          return;
        }
        const settings = result.settings;
        for (const name of leaseSettingNames) {
          const held = given[leaseVariables[name]];
          if (held === undefined) continue;
          if (name === 'logLevel') {
            expect(held.trim()).toBe(settings[name]);
            continue;
          }
          expect(held).toMatch(/^[ \t\r\n]*[0-9]+[ \t\r\n]*$/);
          expect(settings[name]).toBe(Number(held));
        }
        const { logLevel, ...times } = settings;
        expect(logLevels).toContain(logLevel);
        for (const value of Object.values(times)) expect(Number.isSafeInteger(value)).toBe(true);
        expect(settings.ttlMs).toBeGreaterThanOrEqual(1000);
        expect(settings.ttlMs).toBeLessThanOrEqual(600_000);
        expect(settings.renewIntervalMs).toBeLessThanOrEqual(settings.ttlMs / 2);
        expect(settings.driftMs).toBeLessThanOrEqual(settings.ttlMs / 4);
      }),
      { numRuns: 2000 },
    );
  });

  test('C1.2: a source that gives something other than text is refused, not thrown at', () => {
    const oddities: unknown[] = [15_000, null, {}, Object.create(null), ['15000'], true];
    for (const odd of oddities) {
      expect(refusedVariables({ [ttl]: odd as string })).toEqual([ttl]);
    }
  });
});
