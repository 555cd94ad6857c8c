/** What the routes need of the rest of the instance, beside its `ThreadService`. Small, and shaped by who asks. */

import type { AgentDefinition, AgentLookup } from '../contracts/agent.ts';

/** The agents that this instance can run. */
export interface AgentDirectory extends AgentLookup {
  list(): readonly AgentDefinition[];
}

export interface EffectiveSetting {
  readonly value: string | number | boolean | null;
  /** Where it came from: `default`, `environment`, or the name of a ConfigMap. */
  readonly source: string;
}

/** A set of settings that was not taken over: the one before it is still in effect. */
export interface SettingsRefusal {
  /** ISO 8601. */
  readonly at: string;
  readonly source: string;
  /** One sentence for each thing wrong: variable, what it held (secrets masked), what is allowed. */
  readonly problems: readonly string[];
}

export interface SettingsReport {
  /** By variable name. Secrets masked. */
  readonly effective: Readonly<Record<string, EffectiveSetting>>;
  readonly lastRefusal?: SettingsRefusal;
}

export interface InstanceReport {
  readonly id: string;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly version: string;
  readonly state: 'starting' | 'ready' | 'draining' | 'unready';
  /** Threads whose lease it holds now. */
  readonly ownedThreads: number;
  /** The instance that gave this answer. */
  readonly self: boolean;
}

export interface OperatorView {
  settings(): SettingsReport;
  /** The instances that this one knows of, itself included. */
  instances(): Promise<readonly InstanceReport[]>;
  /** Starts a drain, as SIGTERM does, and returns at once. Again: nothing happens. */
  drain(): void;
}

export interface HealthReport {
  readonly ok: boolean;
  /** Why not; empty when all is well. */
  readonly reasons?: readonly string[];
}

/** Answers at once from what is known; none of the three asks the store. */
export interface HealthView {
  /** Whether a restart of this process would not help. Says nothing of the store. */
  live(): HealthReport;
  ready(): HealthReport;
  started(): HealthReport;
}
