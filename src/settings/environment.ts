/** Reads variables by rule and collects what is wrong with them, so that a start fails once, with all of it. */

import { SignalsError } from '../core/errors.ts';
import type { SettingValues } from './lease-settings.ts';
import { formatProblem, problem } from './problems.ts';
import type { SettingsProblem } from './problems.ts';
import { describeRange, parseWholeNumber } from './whole-number.ts';
import type { WholeNumberRange } from './whole-number.ts';

export interface TextRule<T> {
  /** `undefined` when the text is not allowed. Given without white space around it, never empty. */
  readonly parse: (text: string) => T | undefined;
  readonly allowed: string;
  /** How a refused value may be shown. Default: as it is. */
  readonly show?: (text: string) => string;
}

export class EnvironmentReader {
  readonly #values: SettingValues;
  readonly #problems: SettingsProblem[] = [];

  constructor(values: SettingValues) {
    this.#values = values;
  }

  has(variable: string): boolean {
    return this.#values[variable] !== undefined;
  }

  number(variable: string, fallback: number, range: WholeNumberRange, unit?: string): number {
    const text = this.#values[variable];
    if (text === undefined) return fallback;
    const value = parseWholeNumber(text, range);
    if (value === undefined) this.refuse(variable, text, describeRange(range, unit));
    return value ?? fallback;
  }

  /**
   * Absent is `undefined`; empty is refused: a Redis address that a template left empty must not start a pod on the embedded
   * backend.
   */
  optional<T>(variable: string, rule: TextRule<T>): T | undefined {
    const text = this.#values[variable];
    if (text === undefined) return undefined;
    const trimmed = text.trim();
    const value = trimmed === '' ? undefined : rule.parse(trimmed);
    if (value === undefined) this.refuse(variable, rule.show ? rule.show(trimmed) : trimmed, rule.allowed);
    return value;
  }

  /** `true` or `false`, nothing that only looks like it. */
  flag(variable: string, fallback: boolean): boolean {
    return this.text(variable, fallback, booleanRule);
  }

  text<T>(variable: string, fallback: T, rule: TextRule<T>): T {
    return this.optional(variable, rule) ?? fallback;
  }

  /** `value` must be safe to show. */
  refuse(variable: string, value: string, allowed: string): void {
    this.#problems.push(problem(variable, value, allowed));
  }

  /** Throws `SIG_SETTINGS_INVALID`, one line for each problem, if there is any. */
  finish(): void {
    if (this.#problems.length === 0) return;
    throw new SignalsError('SIG_SETTINGS_INVALID', this.#problems.map(formatProblem).join('\n'), {
      details: { problems: this.#problems },
    });
  }
}

export const booleanRule: TextRule<boolean> = {
  parse: text => (text === 'true' || text === 'false' ? text === 'true' : undefined),
  allowed: 'true or false',
};

/** Items between commas, each trimmed and parsed; `undefined` if there is none or one is wrong. */
export function parseList<T>(text: string, parse: (item: string) => T | undefined): T[] | undefined {
  const items: T[] = [];
  for (const part of text.split(',')) {
    const item = parse(part.trim());
    if (item === undefined) return undefined;
    items.push(item);
  }
  return items;
}
