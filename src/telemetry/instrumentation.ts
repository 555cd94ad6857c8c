/** What the observer and the decorators share: tracer, instruments, how ids are shown, and who was acquired where. */

import { INVALID_TRACEID, metrics, SpanStatusCode, trace, TraceFlags } from '@opentelemetry/api';
import type { Attributes, Context, MeterProvider, Span, SpanOptions, Tracer, TracerProvider } from '@opentelemetry/api';

import type { ThreadRef } from '../contracts/thread.ts';
import { threadLeaseKey } from '../contracts/thread.ts';
import { errorMessage, invalidOption, isSignalsError } from '../core/errors.ts';
import { createInstruments } from './instruments.ts';
import type { Instruments } from './instruments.ts';
import { LeaseRegistry } from './lease-registry.ts';
import { keys, scopeName, spanKeys } from './names.ts';
import { maskCredentials } from './redaction.ts';
import { ShownIds } from './shown-ids.ts';

export interface InstrumentationOptions {
  /** Default: the global providers as they are now, so start the SDK first. */
  readonly tracerProvider?: TracerProvider;
  readonly meterProvider?: MeterProvider;
  readonly version?: string;
  /** Thread and resource ids become hashes, where they may name a person; see `shown-ids.ts`. */
  readonly hashIds?: boolean;
  /** One in this many successful renewals becomes a span; 1 is all of them, 0 none. Failures always do. Default 100. */
  readonly renewalSampling?: number;
  /**
   * Whether `thread.run` continues the trace of its signal. `prompt` (the default): the first delivery of a single signal
   * that did not wait longer than `promptLimitMs` does; a redelivery, a batch and a late delivery start a trace of their
   * own with links. `parent` always continues, `link` never does.
   */
  readonly runTrace?: 'prompt' | 'parent' | 'link';
  /** Default 60000. */
  readonly promptLimitMs?: number;
  /**
   * The sampler keeps what lies below a span that it kept, and nothing else: then spans of a trace that is not kept need not be made
   * to be thrown away. Default false.
   */
  readonly parentDecides?: boolean;
}

export interface StartedSpan {
  readonly span: Span;
  /** With the span as the current one. */
  readonly within: Context;
}

export class Instrumentation {
  readonly tracer: Tracer;
  readonly instruments: Instruments;
  readonly leases = new LeaseRegistry();
  readonly renewalSampling: number;
  readonly runTrace: 'prompt' | 'parent' | 'link';
  readonly promptLimitMs: number;
  /** Of the drain that is on: what is given up now belongs to it. */
  drain: Context | undefined;
  readonly ids: ShownIds;
  /** What is on now: read when it is asked for, since it changes several times with each signal. */
  readonly active = { leases: 0, runs: 0 };
  readonly #parentDecides: boolean;

  /** Throws `SIG_OPTION_INVALID`. */
  constructor(options: InstrumentationOptions = {}) {
    this.renewalSampling = options.renewalSampling ?? 100;
    if (!Number.isInteger(this.renewalSampling) || this.renewalSampling < 0) {
      throw invalidOption('renewalSampling', options.renewalSampling, 'a whole number, 0 or more');
    }
    this.promptLimitMs = options.promptLimitMs ?? 60_000;
    this.runTrace = options.runTrace ?? 'prompt';
    this.ids = new ShownIds(options.hashIds ?? false);
    this.#parentDecides = options.parentDecides ?? false;
    this.tracer = (options.tracerProvider ?? trace.getTracerProvider()).getTracer(scopeName, options.version);
    // No version: the streams backend counts on the same meter, and another would make the same metric twice.
    this.instruments = createInstruments((options.meterProvider ?? metrics.getMeterProvider()).getMeter(scopeName));
    this.instruments.leaseActive.addCallback(result => result.observe(this.active.leases));
    this.instruments.runActive.addCallback(result => result.observe(this.active.runs));
  }

  startSpan(name: string, options: SpanOptions, parent: Context): StartedSpan {
    const above = this.#parentDecides ? trace.getSpan(parent) : undefined;
    if (above && isDropped(above)) return { span: above, within: parent };
    const span = this.tracer.startSpan(name, options, parent);
    return { span, within: trace.setSpan(parent, span) };
  }

  threadAttributes(thread: ThreadRef): Attributes {
    return {
      [spanKeys.resourceId]: this.ids.id(thread.resourceId),
      [spanKeys.threadId]: this.ids.id(thread.threadId),
      [spanKeys.leaseKey]: this.ids.id(threadLeaseKey(thread)),
    };
  }
}

/**
 * Marks a span as failed. Only the name, message and stack of an error are kept: a reply of Redis carries its arguments. `thread`:
 * whose ids its words may hold.
 */
export function failSpan(on: Instrumentation, span: Span, error: unknown, thread?: ThreadRef): void {
  if (!span.isRecording()) return;
  const shown = (text: string) => on.ids.text(maskCredentials(text), thread);
  span.setAttribute(keys.errorType, errorType(error));
  const message = shown(errorMessage(error));
  span.setStatus({ code: SpanStatusCode.ERROR, message });
  const stack = error instanceof Error && error.stack ? { stack: shown(error.stack) } : {};
  span.recordException({ name: error instanceof Error ? error.name : typeof error, message, ...stack });
}

/** Not kept, and nothing below it will be. */
function isDropped(span: Span): boolean {
  const { traceFlags, traceId } = span.spanContext();
  return (traceFlags & TraceFlags.SAMPLED) === 0 && traceId !== INVALID_TRACEID && !span.isRecording();
}

/** A closed set: our codes, and the class names of whatever else is thrown. */
export function errorType(error: unknown): string {
  if (isSignalsError(error)) return error.code;
  return error instanceof Error ? error.constructor.name : typeof error;
}

/** Whether the store may have done what was asked without our hearing of it. */
export function isTimeout(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause.name === 'TimeoutError' || (cause as NodeJS.ErrnoException).code === 'ETIMEDOUT') return true;
    if (/timed out|gave no answer within/i.test(cause.message)) return true;
  }
  return false;
}
