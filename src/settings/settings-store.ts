/**
 * The lease settings in effect, where each came from, and why the last refused ones are not in effect.
 *
 * Each source gives all of its values at once, as often as it likes. What counts is the newest of every source, merged and
 * checked as a whole. When that is not valid, the last good set stays (C1), and what was refused is tried again whenever any
 * source changes: a value that was wrong only together with another comes into effect as soon as it fits.
 */

import { systemClock } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { leaseSettingNames, leaseVariables, parseLeaseSettings, unknownLeaseVariables } from './lease-settings.ts';
import type { LeaseSetting, LeaseSettingsLimits, LeaseSettingsSet, SettingValues } from './lease-settings.ts';
import { formatProblem } from './problems.ts';
import type { SettingsProblem } from './problems.ts';

/** Strongest first. */
const precedence = ['tuning', 'chart', 'environment'] as const;

export type SettingsSource = (typeof precedence)[number];
export type ValueSource = SettingsSource | 'default';

export interface Refusal {
  /** ISO 8601. */
  readonly at: string;
  readonly source: SettingsSource;
  readonly problems: readonly SettingsProblem[];
  /** Whether the source still holds what was refused. */
  readonly standing: boolean;
}

export interface EffectiveSettings {
  readonly values: LeaseSettingsSet;
  readonly sources: Readonly<Record<LeaseSetting, ValueSource>>;
  /** ISO 8601: since when these values are in effect. */
  readonly appliedAt: string;
  /** One more for each change of a value. */
  readonly revision: number;
  /** The newest that still stands; if none does, the newest of all. */
  readonly lastRefusal?: Refusal;
}

export interface ApplyOutcome {
  /** `unchanged`: valid, and every value is what it was before. */
  readonly status: 'applied' | 'unchanged' | 'rejected';
  readonly problems: readonly SettingsProblem[];
  /** Variables that look like ours and mean nothing. */
  readonly unknown: readonly string[];
}

export type SettingsListener = (settings: EffectiveSettings) => void;

export interface SettingsStoreOptions {
  clock?: Clock;
  logger?: Logger;
  limits?: LeaseSettingsLimits;
}

type SourceValues = Readonly<Record<SettingsSource, SettingValues>>;

const nothing: SourceValues = { tuning: {}, chart: {}, environment: {} };

export class SettingsStore {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #limits: LeaseSettingsLimits;
  readonly #listeners = new Set<SettingsListener>();
  /** What each source says now. */
  #newest = nothing;
  /** What each source said when it was last in effect. */
  #accepted = nothing;
  /** The newest of each source, oldest first. */
  #refusals: readonly Refusal[] = [];
  #effective: EffectiveSettings;

  constructor(options: SettingsStoreOptions = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#logger = options.logger ?? silentLogger;
    this.#limits = options.limits ?? {};
    const defaults = parseLeaseSettings({});
    if (!defaults.ok) throw new TypeError('the default settings break their own rules');
    const sources = sourcesOf(nothing);
    this.#effective = Object.freeze({ values: defaults.settings, sources, appliedAt: this.#now(), revision: 0 });
  }

  current(): EffectiveSettings {
    return this.#effective;
  }

  /** Called after each change of a value. Answers how to stop that. */
  onChange(listener: SettingsListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Takes all values of a source in place of its former ones. Never throws: what is wrong is in the outcome. */
  apply(source: SettingsSource, values: SettingValues): ApplyOutcome {
    const own = ownValues(values);
    this.#newest = { ...this.#newest, [source]: own };
    const unknown = unknownLeaseVariables(values);
    if (unknown.length > 0) this.#logger.warn('unknown settings are ignored', { source, unknown });

    const whole = parseLeaseSettings(merged(this.#newest), this.#limits);
    if (whole.ok) return { status: this.#accept(this.#newest, whole.settings), problems: [], unknown };
    // What another source holds wrongly must not keep this one from being heard.
    const candidate = { ...this.#accepted, [source]: own };
    const alone = parseLeaseSettings(merged(candidate), this.#limits);
    if (alone.ok) return { status: this.#accept(candidate, alone.settings), problems: [], unknown };
    this.#refuse(source, alone.problems);
    return { status: 'rejected', problems: alone.problems, unknown };
  }

  #accept(accepted: SourceValues, values: LeaseSettingsSet): 'applied' | 'unchanged' {
    this.#accepted = accepted;
    const before = this.#effective;
    const changed = leaseSettingNames.some(name => before.values[name] !== values[name]);
    this.#refusals = this.#refusals.map(refusal =>
      Object.freeze({ ...refusal, standing: this.#newest[refusal.source] !== accepted[refusal.source] }),
    );
    this.#effective = Object.freeze({
      values: changed ? values : before.values,
      sources: sourcesOf(accepted),
      appliedAt: changed ? this.#now() : before.appliedAt,
      revision: before.revision + (changed ? 1 : 0),
      ...this.#lastRefusal(),
    });
    if (!changed) return 'unchanged';
    this.#logger.info('settings applied', { ...values, sources: this.#effective.sources });
    this.#tell();
    return 'applied';
  }

  #refuse(source: SettingsSource, problems: readonly SettingsProblem[]): void {
    const refusal: Refusal = Object.freeze({ at: this.#now(), source, problems, standing: true });
    this.#refusals = [...this.#refusals.filter(other => other.source !== source), refusal];
    this.#effective = Object.freeze({ ...this.#effective, ...this.#lastRefusal() });
    this.#logger.error('settings refused, the last good ones stay', { source, problems: problems.map(formatProblem) });
  }

  #lastRefusal(): Pick<EffectiveSettings, 'lastRefusal'> {
    const last = this.#refusals.findLast(refusal => refusal.standing) ?? this.#refusals.at(-1);
    return last ? { lastRefusal: last } : {};
  }

  #tell(): void {
    const effective = this.#effective;
    for (const listener of this.#listeners) {
      try {
        listener(effective);
      } catch (error) {
        // One that can't follow must not keep the others, or the source's watch, from going on (C1).
        this.#logger.error('a settings listener failed', { error: errorMessage(error) });
      }
    }
  }

  #now(): string {
    return new Date(this.#clock.wallMs()).toISOString();
  }
}

/** A copy of those that concern us; the environment holds much else, and its object may change later. */
function ownValues(values: SettingValues): SettingValues {
  const own: Record<string, string | undefined> = {};
  for (const variable of Object.values(leaseVariables)) {
    if (values[variable] !== undefined) own[variable] = values[variable];
  }
  return own;
}

function merged({ environment, chart, tuning }: SourceValues): SettingValues {
  return { ...environment, ...chart, ...tuning };
}

function sourcesOf(values: SourceValues): Readonly<Record<LeaseSetting, ValueSource>> {
  const of = (name: LeaseSetting): ValueSource =>
    precedence.find(source => values[source][leaseVariables[name]] !== undefined) ?? 'default';
  return Object.freeze({
    ttlMs: of('ttlMs'),
    renewIntervalMs: of('renewIntervalMs'),
    driftMs: of('driftMs'),
    sweepIntervalMs: of('sweepIntervalMs'),
    drainTimeoutMs: of('drainTimeoutMs'),
    logLevel: of('logLevel'),
  });
}
