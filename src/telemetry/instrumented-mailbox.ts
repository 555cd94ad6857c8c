/**
 * A mailbox that shows what it does: `signal.route` and `lease.acquire` for a delivery, `lease.acquire` for a claim,
 * `lease.transfer` or `lease.release` for the end of a run, and refused writes of stale owners as a count.
 *
 * A delivery and its acquire are one step of the store, so their spans cover the same time.
 */

import { context, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import type { Context } from '@opentelemetry/api';

import type { Chunk } from '../contracts/agent.ts';
import type { MailboxOperations } from '../contracts/mailbox-operations.ts';
import type {
  AbortOutcome,
  AbortRequest,
  Appended,
  DeliverRequest,
  Delivery,
  FollowRequest,
  Grant,
  LeaseClaim,
  MailboxListener,
  OutputChunk,
  Settlement,
  SettleRequest,
  Taken,
  TakeRequest,
  ThreadMailbox,
  ThreadState,
} from '../contracts/thread-mailbox.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import { isSignalsError } from '../core/errors.ts';
import type { SignalEnd } from '../core/outcomes.ts';
import { failSpan } from './instrumentation.ts';
import type { Instrumentation } from './instrumentation.ts';
import { deliveryAttributes, MailboxRecorder } from './mailbox-recorder.ts';
import { keys, spanNames } from './names.ts';
import { carrierOf, contextOf } from './observer.ts';

export function instrumentMailbox(mailbox: ThreadMailbox, instrumentation: Instrumentation): ThreadMailbox {
  return new InstrumentedMailbox(mailbox, instrumentation);
}

/** `operations`, whose cancelled signals are counted. */
export function instrumentOperations(operations: MailboxOperations, on: Instrumentation): MailboxOperations {
  return {
    unattended: () => operations.unattended(),
    findRun: runId => operations.findRun(runId),
    async cancel(thread, signalIds) {
      const cancelled = await operations.cancel(thread, signalIds);
      countEnded(on, 'discarded', cancelled.length);
      return cancelled;
    },
    threadsWithDeadLetters: limit => operations.threadsWithDeadLetters(limit),
    deadLetters: (thread, limit) => operations.deadLetters(thread, limit),
    replay: (thread, ids) => operations.replay(thread, ids),
  };
}

/** S4: by these ways, and no others, do signals leave the mailbox. */
function countEnded(on: Instrumentation, end: SignalEnd, count: number): void {
  if (count > 0) on.instruments.inboxEnded.add(count, { [keys.outcome]: end });
}

class InstrumentedMailbox implements ThreadMailbox {
  readonly #inner: ThreadMailbox;
  readonly #on: Instrumentation;
  readonly #shown: MailboxRecorder;

  constructor(inner: ThreadMailbox, instrumentation: Instrumentation) {
    this.#inner = inner;
    this.#on = instrumentation;
    this.#shown = new MailboxRecorder(instrumentation);
  }

  async deliver(request: DeliverRequest): Promise<Delivery> {
    const { thread } = request;
    const parent = senderContext(request);
    const { span, within } = this.#on.startSpan(spanNames.signalRoute, { kind: SpanKind.PRODUCER }, parent);
    if (span.isRecording()) span.setAttributes(this.#shown.signalAttributes(request));
    const sent = travelling(request, within);
    const at = this.#shown.begin(within);
    try {
      const delivery = await context.with(within, () => this.#inner.deliver(sent));
      this.#shown.delivered(request, delivery, at);
      if (delivery.action === 'discard' && !delivery.duplicate) countEnded(this.#on, 'discarded', 1);
      if (span.isRecording()) span.setAttributes(deliveryAttributes(delivery));
      return delivery;
    } catch (error) {
      span.setAttribute(keys.decision, isRefusal(error) ? 'refused' : 'error');
      failSpan(this.#on, span, error, thread);
      // Only a store that did not answer leaves it open whether the lease was taken; a refusal came before that.
      if (request.claim && !isRefusal(error)) this.#shown.acquireFailed(thread, request.claim, at, error);
      throw error;
    } finally {
      span.end();
    }
  }

  async claim(thread: ThreadRef, claim: LeaseClaim): Promise<Grant | undefined> {
    const at = this.#shown.begin(context.active());
    try {
      const grant = await this.#inner.claim(thread, claim);
      this.#shown.acquired(thread, claim, grant ? 'acquired' : 'held', { ...at, ...(grant ? { grant } : {}) });
      return grant;
    } catch (error) {
      this.#shown.acquireFailed(thread, claim, at, error);
      throw error;
    }
  }

  async take(request: TakeRequest): Promise<Taken> {
    const taken = await this.#fenced(() => this.#inner.take(request));
    const again = taken.entries.filter(entry => entry.attempt > 1).length;
    if (again > 0) this.#on.instruments.streamRedeliveries.add(again);
    if (taken.deadLettered) this.#on.instruments.streamDeadLetters.add(taken.deadLettered);
    countEnded(this.#on, 'dead_lettered', taken.deadLettered ?? 0);
    return taken;
  }

  append(thread: ThreadRef, grant: Grant, chunks: readonly Chunk[]): Promise<Appended> {
    return this.#fenced(() => this.#inner.append(thread, grant, chunks));
  }

  spare(thread: ThreadRef, grant: Grant): Promise<void> {
    return this.#inner.spare(thread, grant);
  }

  async settle(request: SettleRequest): Promise<Settlement> {
    const at = this.#shown.begin(this.#shown.settleContext(request.grant));
    const links = trace.getSpanContext(at.within) ? [] : this.#on.leases.linksTo(request.grant.key, request.grant.owner);
    try {
      const settle = () => this.#inner.settle(request);
      const settlement = await (this.#shown.isOffered(request) ? settle() : this.#fenced(settle));
      this.#shown.settled(request, settlement, { ...at, links });
      countEnded(this.#on, 'settled', request.consumed.length);
      return settlement;
    } catch (error) {
      this.#shown.settleFailed(request, { ...at, links }, error);
      throw error;
    }
  }

  follow(request: FollowRequest): Promise<AsyncIterable<OutputChunk>> {
    return this.#inner.follow(request);
  }

  async abort(thread: ThreadRef, request?: AbortRequest): Promise<AbortOutcome> {
    const outcome = await this.#inner.abort(thread, request);
    countEnded(this.#on, 'discarded', outcome.cancelledSignalIds.length);
    return outcome;
  }

  due(limit: number): Promise<ThreadRef[]> {
    return this.#inner.due(limit);
  }

  inspect(thread: ThreadRef): Promise<ThreadState> {
    return this.#inner.inspect(thread);
  }

  waiting(limit: number): Promise<ThreadState[]> {
    return this.#inner.waiting(limit);
  }

  /** Hints come from nobody in particular: what they start must not appear in the trace of whoever called `listen`. */
  listen(instanceId: string, listener: MailboxListener): Promise<() => Promise<void>> {
    return context.with(ROOT_CONTEXT, () => this.#inner.listen(instanceId, listener));
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  async #fenced<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (isSignalsError(error, 'SIG_LEASE_LOST')) {
        this.#on.instruments.leaseFenceRejections.add(1);
        trace.getActiveSpan()?.addEvent('lease.fence_rejected');
      }
      throw error;
    }
  }
}

/** The request that is being served, else the trace that came with the signal. */
function senderContext(request: DeliverRequest): Context {
  const active = context.active();
  if (trace.getSpanContext(active) || !request.envelope.trace) return active;
  return contextOf(request.envelope.trace);
}

/** What travels is the current span, so that the run appears under the decision that led to it. */
function travelling(request: DeliverRequest, within: Context): DeliverRequest {
  const { envelope } = request;
  const spanId = trace.getSpanContext(within)?.spanId;
  if (spanId !== undefined && envelope.trace?.['traceparent']?.includes(spanId)) return request;
  const carrier = carrierOf(within);
  return carrier ? { ...request, envelope: { ...envelope, trace: carrier } } : request;
}

/** The store answered, and said no to the signal. */
function isRefusal(error: unknown): boolean {
  return isSignalsError(error) && !isSignalsError(error, 'SIG_STORE_UNAVAILABLE');
}
