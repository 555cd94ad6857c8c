/** What a chaos run may be told on the command line. */

import { parseArgs } from 'node:util';

export interface ChaosOptions {
  /** How long signals are sent and faults made, seconds. Coming to rest afterwards is not counted. */
  readonly seconds: number;
  /** The same seed makes the same plan of faults; when each hits what is left to the machine. */
  readonly seed: number;
  readonly pods: number;
  readonly threads: number;
  /** Signals a second, of all clients together. */
  readonly rate: number;
  /** Time to live of the leases, ms. */
  readonly ttlMs: number;
  /** Writes history and logs down even if there is nothing to find. */
  readonly keep: boolean;
}

export const defaults: ChaosOptions = { seconds: 120, seed: 20_261_130, pods: 3, threads: 24, rate: 40, ttlMs: 2000, keep: false };

type NumericOption = Exclude<keyof ChaosOptions, 'keep'>;

const ranges: Record<NumericOption, readonly [number, number]> = {
  seconds: [1, 86_400],
  seed: [0, 2 ** 32 - 1],
  pods: [1, 20],
  threads: [1, 10_000],
  rate: [1, 2000],
  ttlMs: [1000, 60_000],
};

/** Throws, naming the option, what it held and what is allowed. */
export function parseOptions(args: readonly string[]): ChaosOptions {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: { seconds: text, seed: text, pods: text, threads: text, rate: text, 'ttl-ms': text, keep: { type: 'boolean' } },
  });
  const { 'ttl-ms': ttlMs, keep = false, ...rest } = values;
  return { ...defaults, ...numbersOf({ ...rest, ttlMs }), keep };
}

function numbersOf(values: Partial<Record<NumericOption, string | undefined>>): Partial<ChaosOptions> {
  const entries = (Object.keys(ranges) as NumericOption[]).flatMap(name => {
    const value = values[name];
    if (value === undefined) return [];
    const [low, high] = ranges[name];
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < low || number > high) {
      throw new Error(`${name} must be a whole number from ${low} to ${high}, got ${JSON.stringify(value)}`);
    }
    return [[name, number] as const];
  });
  return Object.fromEntries(entries);
}
