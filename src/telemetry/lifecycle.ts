/** What happens to an instance as a whole: `runtime.drain` and `config.reload`. */

import { context, ROOT_CONTEXT, SpanStatusCode } from '@opentelemetry/api';

import { failSpan } from './instrumentation.ts';
import type { Instrumentation } from './instrumentation.ts';
import type { reloadOutcomes } from './instruments.ts';
import { keys, spanKeys, spanNames } from './names.ts';

/**
 * The whole of a drain as one span; what the mailbox gives up meanwhile appears under it and is counted by outcome.
 * `work` answers how many leases were left to run out.
 */
export async function observeDrain<T extends { readonly abandoned: number }>(
  on: Instrumentation,
  work: () => Promise<T>,
): Promise<T> {
  const startedMs = performance.now();
  const { span, within } = on.startSpan(spanNames.runtimeDrain, {}, ROOT_CONTEXT);
  on.drain = within;
  try {
    const result = await context.with(within, work);
    span.setAttribute(spanKeys.abandoned, result.abandoned);
    if (result.abandoned > 0) span.setStatus({ code: SpanStatusCode.ERROR, message: 'leases were left to run out' });
    on.instruments.drainLeases.add(result.abandoned, { [keys.outcome]: 'abandoned' });
    return result;
  } catch (error) {
    failSpan(on, span, error);
    throw error;
  } finally {
    on.drain = undefined;
    on.instruments.drainDuration.record((performance.now() - startedMs) / 1000);
    span.end();
  }
}

export interface Reload {
  readonly status: (typeof reloadOutcomes)[number];
  readonly problems: readonly unknown[];
}

/** One set of settings that was read again. `source`: where it came from, a closed set. */
export function observeReload<T extends Reload>(on: Instrumentation, source: string, apply: () => T): T {
  const { span } = on.startSpan(spanNames.configReload, { attributes: { [spanKeys.source]: source } }, ROOT_CONTEXT);
  try {
    const result = apply();
    on.instruments.configReloads.add(1, { [keys.outcome]: result.status });
    span.setAttribute(keys.outcome, result.status);
    if (result.status === 'rejected') {
      span.setStatus({ code: SpanStatusCode.ERROR, message: `refused, ${result.problems.length} problem(s)` });
    }
    return result;
  } catch (error) {
    failSpan(on, span, error);
    throw error;
  } finally {
    span.end();
  }
}
