/** Turns what the domain reports into metrics and the `thread.run` span. */

import { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Context, Link, Span } from '@opentelemetry/api';

import type { Observer, RunFacts, RunScope } from '../contracts/observer.ts';
import type { TraceCarrier } from '../contracts/signal.ts';
import { threadLeaseKey } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type { HoldEnd, RouteDecision, RunEnd } from '../core/outcomes.ts';
import { failSpan } from './instrumentation.ts';
import type { Instrumentation } from './instrumentation.ts';
import { linksToAcquire } from './lease-registry.ts';
import { keys, spanKeys, spanNames } from './names.ts';

/** More links than this on one run say nothing more; the spec's own limit is 128. */
const maxLinks = 64;

export class TelemetryObserver implements Observer {
  readonly #on: Instrumentation;

  constructor(instrumentation: Instrumentation) {
    this.#on = instrumentation;
  }

  held(_key: string): void {
    this.#on.active.leases++;
  }

  renewed(_key: string, headroom: number): void {
    this.#on.instruments.leaseRenewalHeadroom.record(headroom);
  }

  ended(key: string, end: HoldEnd, heldMs: number): void {
    this.#on.active.leases--;
    this.#on.instruments.leaseHoldDuration.record(heldMs / 1000, { [keys.endReason]: end });
    // What ended in order was forgotten by whoever ended it; by now the key may be held again.
    if (end !== 'transferred' && end !== 'released') this.#on.leases.ended(key);
  }

  routed(decision: RouteDecision): void {
    this.#on.instruments.routeDecisions.add(1, { [keys.decision]: decision });
  }

  takenOver(_thread: ThreadRef): void {
    this.#on.instruments.leaseTakeovers.add(1);
    trace.getActiveSpan()?.addEvent('lease.taken_over');
  }

  carrier(): TraceCarrier | undefined {
    return carrierOf(context.active());
  }

  runStarted(facts: RunFacts): RunScope {
    const startedMs = performance.now();
    const key = threadLeaseKey(facts.thread);
    const { parent, links } = this.#origin(facts, key);
    const { span, within: runContext } = this.#on.startSpan(spanNames.threadRun, { kind: SpanKind.CONSUMER, links }, parent);
    if (span.isRecording()) span.setAttributes(this.#attributes(facts));
    this.#on.leases.runStarted(key, facts.runId, runContext);
    this.#on.active.runs++;
    let over = false;
    return {
      within: work => context.with(runContext, work),
      end: (reason, error) => {
        if (over) return;
        over = true;
        this.#on.active.runs--;
        const seconds = (performance.now() - startedMs) / 1000;
        this.#on.instruments.runDuration.record(seconds, { [keys.endReason]: reason });
        if (span.isRecording()) this.#endRun(span, facts.thread, reason, error);
      },
    };
  }

  /**
   * The rule for parent or link. Never the active context: a run is started by whoever happened to hand it over, a timer
   * or another signal's request, and must not appear as part of that.
   */
  #origin(facts: RunFacts, key: string): { parent: Context; links: Link[] } {
    const first = facts.trace ? contextOf(facts.trace) : ROOT_CONTEXT;
    const prompt =
      facts.attempt === 1 && facts.signalCount === 1 && (facts.waitedMs ?? 0) <= this.#on.promptLimitMs;
    const continues = this.#on.runTrace === 'parent' || (this.#on.runTrace === 'prompt' && prompt);
    const rest = (facts.otherTraces ?? []).slice(0, maxLinks).flatMap(carrier => linkTo(contextOf(carrier)));
    const parent = continues ? first : ROOT_CONTEXT;
    // Where it was claimed apart from the signal's own trace, as after a crash, that is where one reads on.
    const traceId = trace.getSpanContext(parent)?.traceId;
    const acquire = linksToAcquire(this.#on.leases.ofRun(key, facts.runId));
    const elsewhere = acquire.filter(link => link.context.traceId !== traceId);
    return { parent, links: [...(continues ? [] : linkTo(first)), ...rest, ...elsewhere] };
  }

  #endRun(span: Span, thread: ThreadRef, reason: RunEnd, error: unknown): void {
    span.setAttribute(keys.endReason, reason);
    if (error !== undefined) failSpan(this.#on, span, error, thread);
    else if (reason === 'failed' || reason === 'lease_lost') span.setStatus({ code: SpanStatusCode.ERROR, message: reason });
    span.end();
  }

  #attributes(facts: RunFacts) {
    return {
      ...this.#on.threadAttributes(facts.thread),
      [spanKeys.agentId]: facts.agentId,
      [spanKeys.runId]: facts.runId,
      [spanKeys.runAttempt]: facts.attempt,
      [spanKeys.runSignals]: facts.signalCount,
      ...(facts.fencingToken === undefined ? {} : { [spanKeys.fencingToken]: facts.fencingToken }),
      ...(facts.waitedMs === undefined ? {} : { [spanKeys.runWaitedMs]: facts.waitedMs }),
    };
  }
}

export function carrierOf(from: Context): TraceCarrier | undefined {
  const carrier: Record<string, string> = {};
  propagation.inject(from, carrier);
  return Object.keys(carrier).length > 0 ? carrier : undefined;
}

/** What a carrier says, on nothing else. A carrier that says nothing valid gives the root. */
export function contextOf(carrier: TraceCarrier): Context {
  return propagation.extract(ROOT_CONTEXT, carrier);
}

function linkTo(from: Context): Link[] {
  const target = trace.getSpanContext(from);
  return target && trace.isSpanContextValid(target) ? [{ context: target }] : [];
}
