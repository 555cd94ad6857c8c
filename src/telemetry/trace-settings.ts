/** Our own settings of telemetry, beside the standard `OTEL_*` ones: environment, read once at start. */

import { SignalsError } from '../core/errors.ts';
import type { InstrumentationOptions } from './instrumentation.ts';

export type TraceSettings = Pick<InstrumentationOptions, 'hashIds' | 'renewalSampling' | 'runTrace' | 'promptLimitMs' | 'parentDecides'>;

const runTraces = ['prompt', 'parent', 'link'] as const;

/**
 * - `TRACE_HASH_IDS`: `true` shows thread and resource ids on spans and in logs only as hashes. Default `false`.
 * - `TRACE_RENEWALS`: one in so many successful renewals is shown; 0 is none. Default 100.
 * - `TRACE_RUNS`: `prompt`, `parent` or `link`, see `InstrumentationOptions.runTrace`. Default `prompt`.
 * - `TRACE_PROMPT_LIMIT_MS`: what waited longer was not delivered promptly. Default 60000.
 *
 * Throws `SIG_SETTINGS_INVALID`.
 */
export function parseTraceSettings(environment: Readonly<Record<string, string | undefined>>): TraceSettings {
  const read = <T>(name: string, allowed: string, parse: (text: string) => T | undefined): T | undefined => {
    const text = environment[name]?.trim();
    if (text === undefined || text === '') return undefined;
    const value = parse(text);
    if (value === undefined) throw invalid(name, text, allowed);
    return value;
  };
  const wholeNumber = (text: string) => (/^\d{1,9}$/.test(text) ? Number(text) : undefined);
  const hashIds = read('TRACE_HASH_IDS', 'true or false', truth);
  const renewalSampling = read('TRACE_RENEWALS', 'a whole number from 0 to 999999999', wholeNumber);
  const runTrace = read('TRACE_RUNS', `one of ${runTraces.join(', ')}`, text => runTraces.find(known => known === text));
  const promptLimitMs = read('TRACE_PROMPT_LIMIT_MS', 'a whole number of milliseconds up to 999999999', wholeNumber);
  return {
    ...(hashIds === undefined ? {} : { hashIds }),
    ...(renewalSampling === undefined ? {} : { renewalSampling }),
    ...(runTrace === undefined ? {} : { runTrace }),
    ...(promptLimitMs === undefined ? {} : { promptLimitMs }),
  };
}

function truth(text: string): boolean | undefined {
  const lower = text.toLowerCase();
  return lower === 'true' ? true : lower === 'false' ? false : undefined;
}

function invalid(name: string, value: string, allowed: string): SignalsError {
  const shown = JSON.stringify(value.slice(0, 80));
  return new SignalsError('SIG_SETTINGS_INVALID', `${name} must be ${allowed}, got ${shown}`, { details: { name, allowed } });
}
