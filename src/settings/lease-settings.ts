/**
 * The settings that change while the process runs: `MASTRA_AGENT_THREAD_LEASE_*` and the log level, parsed and cross-checked as a
 * whole. The result is the whole set or all that is wrong with it, never a mixture (C1).
 */

import { logLevels } from '../core/logger.ts';
import type { LogLevel } from '../core/logger.ts';
import { problem } from './problems.ts';
import type { SettingsProblem } from './problems.ts';
import { describeRange, parseWholeNumber } from './whole-number.ts';
import type { WholeNumberRange } from './whole-number.ts';

/** Times in milliseconds. */
export interface LeaseSettingsSet {
  readonly ttlMs: number;
  readonly renewIntervalMs: number;
  /** Taken off every deadline: clock rates, and steps of the server's clock. */
  readonly driftMs: number;
  readonly sweepIntervalMs: number;
  /** How long a drain may let runs finish. */
  readonly drainTimeoutMs: number;
  readonly logLevel: LogLevel;
}

/** What the process knows and the settings must fit. */
export interface LeaseSettingsLimits {
  /** The longest drain that ends before SIGKILL; absent: not known. */
  readonly maxDrainTimeoutMs?: number;
}

export type LeaseSetting = keyof LeaseSettingsSet;

export type SettingValues = Readonly<Record<string, string | undefined>>;

export type LeaseSettingsResult =
  | { readonly ok: true; readonly settings: LeaseSettingsSet }
  | { readonly ok: false; readonly problems: readonly SettingsProblem[] };

export const leaseVariablePrefix = 'MASTRA_AGENT_THREAD_LEASE_';

export const leaseVariables: Readonly<Record<LeaseSetting, string>> = {
  ttlMs: `${leaseVariablePrefix}TTL_MS`,
  renewIntervalMs: `${leaseVariablePrefix}RENEW_INTERVAL_MS`,
  driftMs: `${leaseVariablePrefix}DRIFT_MS`,
  sweepIntervalMs: `${leaseVariablePrefix}SWEEP_INTERVAL_MS`,
  drainTimeoutMs: `${leaseVariablePrefix}DRAIN_TIMEOUT_MS`,
  logLevel: 'LOG_LEVEL',
};

export const leaseSettingNames = Object.keys(leaseVariables) as readonly LeaseSetting[];

interface Rule {
  readonly range: WholeNumberRange;
  readonly fallback: number;
  /** Said after the range. */
  readonly because?: string;
}

/** None may be 0: it could be read as "off", "at once" or "no limit". */
const fixedRules = {
  ttlMs: { range: { min: 1000, max: 600_000 }, fallback: 15_000 },
  sweepIntervalMs: { range: { min: 100, max: 60_000 }, fallback: 1000 },
  drainTimeoutMs: { range: { min: 1, max: 3_600_000 }, fallback: 25_000 },
} as const satisfies Partial<Record<LeaseSetting, Rule>>;

/**
 * At most half the TTL between renewals, so that one that got no answer can be tried again before the deadline. Together
 * with a drift of at most a quarter that leaves a quarter of the TTL for the answer.
 */
function renewIntervalRule(ttlMs: number): Rule {
  return {
    range: { min: 100, max: Math.floor(ttlMs / 2) },
    fallback: Math.floor(ttlMs / 3),
    because: `at most half of ${leaseVariables.ttlMs}`,
  };
}

function driftRule(ttlMs: number): Rule {
  const max = Math.floor(ttlMs / 4);
  return {
    range: { min: 1, max },
    fallback: Math.min(Math.floor(ttlMs / 100) + 500, max),
    because: `at most a quarter of ${leaseVariables.ttlMs}`,
  };
}

function drainTimeoutRule(limitMs: number | undefined): Rule {
  const { range, fallback } = fixedRules.drainTimeoutMs;
  if (limitMs === undefined || limitMs >= range.max) return fixedRules.drainTimeoutMs;
  return { range: { ...range, max: limitMs }, fallback: Math.min(fallback, limitMs), because: 'what TERMINATION_GRACE_MS leaves for it' };
}

/** Absent means default; empty is refused. Variables of other names are not looked at. Never throws. */
export function parseLeaseSettings(values: SettingValues, limits: LeaseSettingsLimits = {}): LeaseSettingsResult {
  const problems: SettingsProblem[] = [];
  const read = (name: LeaseSetting, rule: Rule): number => {
    const text: unknown = values[leaseVariables[name]];
    if (text === undefined) return rule.fallback;
    const value = parseWholeNumber(text, rule.range);
    if (value === undefined) problems.push(refusal(name, text, rule));
    return value ?? rule.fallback;
  };
  const ttlMs = read('ttlMs', fixedRules.ttlMs);
  // With a refused TTL the two that depend on it are held against the widest TTL: only what no TTL would allow is said of them.
  const boundingTtlMs = problems.length > 0 ? fixedRules.ttlMs.range.max : ttlMs;
  const settings: LeaseSettingsSet = {
    ttlMs,
    renewIntervalMs: read('renewIntervalMs', renewIntervalRule(boundingTtlMs)),
    driftMs: read('driftMs', driftRule(boundingTtlMs)),
    sweepIntervalMs: read('sweepIntervalMs', fixedRules.sweepIntervalMs),
    drainTimeoutMs: read('drainTimeoutMs', drainTimeoutRule(limits.maxDrainTimeoutMs)),
    logLevel: readLogLevel(values, problems),
  };
  return problems.length > 0 ? { ok: false, problems } : { ok: true, settings: Object.freeze(settings) };
}

function readLogLevel(values: SettingValues, problems: SettingsProblem[]): LogLevel {
  const text: unknown = values[leaseVariables.logLevel];
  if (text === undefined) return 'info';
  const level = logLevels.find(known => typeof text === 'string' && known === text.trim());
  if (level === undefined) problems.push(problem(leaseVariables.logLevel, shown(text), `one of ${logLevels.join(', ')}`));
  return level ?? 'info';
}

/** Names with our prefix that mean nothing: most likely a typing error that would otherwise pass in silence. */
export function unknownLeaseVariables(values: SettingValues): string[] {
  const known = new Set(Object.values(leaseVariables));
  return Object.keys(values).filter(name => name.startsWith(leaseVariablePrefix) && !known.has(name));
}

function refusal(name: LeaseSetting, text: unknown, rule: Rule): SettingsProblem {
  const allowed = describeRange(rule.range, 'milliseconds');
  return problem(leaseVariables[name], shown(text), rule.because === undefined ? allowed : `${allowed} (${rule.because})`);
}

/** `String` would throw on an object without a prototype, and only a broken source gives anything but text. */
function shown(text: unknown): string {
  return typeof text === 'string' ? text : `(${typeof text})`;
}
