/**
 * A mailbox that shows what it does: `signal.route` and `lease.acquire` for a delivery, `lease.acquire` for a claim,
 * `lease.transfer` or `lease.release` for the end of a run, and refused writes of stale owners as a count.
 *
 * A delivery and its acquire are one step of the store, so their spans cover the same time.
 */

import { context, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import type { Attributes, Context, Link, Span } from '@opentelemetry/api';

import type { Chunk } from '../contracts/agent.ts';
import type {
  AbortOutcome,
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
import type { AcquireOutcome } from '../core/outcomes.ts';
import { failSpan } from './instrumentation.ts';
import type { Instrumentation } from './instrumentation.ts';
import { failureOutcome, LeaseRecorder } from './lease-recorder.ts';
import type { Moment } from './lease-recorder.ts';
import { keys, spanKeys, spanNames } from './names.ts';
import { carrierOf, contextOf } from './observer.ts';

export function instrumentMailbox(mailbox: ThreadMailbox, instrumentation: Instrumentation): ThreadMailbox {
  return new InstrumentedMailbox(mailbox, instrumentation);
}

class InstrumentedMailbox implements ThreadMailbox {
  readonly #inner: ThreadMailbox;
  readonly #on: Instrumentation;
  readonly #recorder: LeaseRecorder;

  constructor(inner: ThreadMailbox, instrumentation: Instrumentation) {
    this.#inner = inner;
    this.#on = instrumentation;
    this.#recorder = new LeaseRecorder(instrumentation);
  }

  async deliver(request: DeliverRequest): Promise<Delivery> {
    const { envelope, thread } = request;
    const parent = senderContext(request);
    const span = this.#on.tracer.startSpan(spanNames.signalRoute, { kind: SpanKind.PRODUCER }, parent);
    if (span.isRecording()) span.setAttributes(this.#signalAttributes(request));
    const within = trace.setSpan(parent, span);
    // What travels is this span, so that the run appears under the decision that led to it.
    const carrier = carrierOf(within);
    const sent = carrier ? { ...request, envelope: { ...envelope, trace: carrier } } : request;
    const start = this.#recorder.now();
    try {
      const delivery = await context.with(within, () => this.#inner.deliver(sent));
      this.#delivered(request, delivery, { start, within });
      if (span.isRecording()) span.setAttributes(deliveryAttributes(delivery));
      return delivery;
    } catch (error) {
      span.setAttribute(keys.decision, isRefusal(error) ? 'refused' : 'error');
      failSpan(span, error);
      // Only a store that did not answer leaves it open whether the lease was taken; a refusal came before that.
      if (request.claim && !isRefusal(error)) this.#acquireFailed(thread, request.claim, { start, within }, error);
      throw error;
    } finally {
      span.end();
    }
  }

  async claim(thread: ThreadRef, claim: LeaseClaim): Promise<Grant | undefined> {
    const at = { start: this.#recorder.now(), within: context.active() };
    try {
      const grant = await this.#inner.claim(thread, claim);
      this.#acquired(thread, claim, grant ? 'acquired' : 'held', { ...at, ...(grant ? { grant } : {}) });
      return grant;
    } catch (error) {
      this.#acquireFailed(thread, claim, at, error);
      throw error;
    }
  }

  async take(request: TakeRequest): Promise<Taken> {
    const taken = await this.#fenced(() => this.#inner.take(request));
    const again = taken.entries.filter(entry => entry.attempt > 1).length;
    if (again > 0) this.#on.instruments.streamRedeliveries.add(again);
    if (taken.deadLettered) this.#on.instruments.streamDeadLetters.add(taken.deadLettered);
    return taken;
  }

  append(thread: ThreadRef, grant: Grant, chunks: readonly Chunk[]): Promise<void> {
    return this.#fenced(() => this.#inner.append(thread, grant, chunks));
  }

  async settle(request: SettleRequest): Promise<Settlement> {
    const at = { start: this.#recorder.now(), within: this.#settleContext(request.grant) };
    const links = trace.getSpanContext(at.within) ? [] : this.#on.leases.linksTo(request.grant.key, request.grant.owner);
    try {
      const settlement = await this.#fenced(() => this.#inner.settle(request));
      this.#settled(request, settlement, { ...at, links });
      return settlement;
    } catch (error) {
      this.#settleFailed(request, { ...at, links }, error);
      throw error;
    }
  }

  follow(request: FollowRequest): Promise<AsyncIterable<OutputChunk>> {
    return this.#inner.follow(request);
  }

  abort(thread: ThreadRef, expectedRunId?: string): Promise<AbortOutcome> {
    return this.#inner.abort(thread, expectedRunId);
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

  #signalAttributes({ thread, envelope }: DeliverRequest): Attributes {
    return {
      ...this.#on.threadAttributes(thread),
      [spanKeys.agentId]: envelope.agentId,
      [spanKeys.signalId]: envelope.signal.id,
      [spanKeys.signalType]: envelope.signal.type,
    };
  }

  #delivered(request: DeliverRequest, delivery: Delivery, at: Moment): void {
    if (delivery.unownedMs !== undefined) this.#on.instruments.leaseHandoffGap.record(delivery.unownedMs / 1000);
    const { claim, thread } = request;
    if (!claim) return;
    const { grant, owner } = delivery;
    if (grant) this.#acquired(thread, claim, 'acquired', { ...at, grant, delivery });
    // Without an owner the lease was not asked for: the signal does not wake, or was dropped.
    else if (owner !== undefined && owner !== claim.owner && !delivery.duplicate) {
      this.#acquired(thread, claim, 'held', { ...at, delivery });
    }
  }

  #acquired(
    thread: ThreadRef,
    claim: LeaseClaim,
    outcome: AcquireOutcome,
    at: Moment & { grant?: Grant; delivery?: Delivery },
  ): void {
    const { grant, delivery } = at;
    const span = this.#recorder.record({
      operation: 'acquire',
      outcome,
      at,
      attributes: () => ({
        ...this.#claimAttributes(thread, claim),
        ...tokenOf(grant),
        ...(delivery?.unownedMs === undefined ? {} : { [spanKeys.unownedMs]: delivery.unownedMs }),
        // Who has it instead.
        ...(grant || delivery?.owner === undefined ? {} : { [spanKeys.currentOwner]: delivery.owner }),
      }),
    });
    if (grant) this.#remember(grant, span, at);
  }

  #acquireFailed(thread: ThreadRef, claim: LeaseClaim, at: Moment, error: unknown): void {
    const attributes = () => this.#claimAttributes(thread, claim);
    this.#recorder.record({ operation: 'acquire', outcome: failureOutcome(error), at, attributes, error });
  }

  /**
   * A drain, else the run that ends here. Not the active context: a thread is run in that of whoever first woke it, and its
   * last run may be hours later.
   */
  #settleContext({ key, owner }: Grant): Context {
    return this.#on.drain ?? this.#on.leases.of(key, owner)?.run ?? ROOT_CONTEXT;
  }

  #settled(request: SettleRequest, settlement: Settlement, at: Moment & { links: Link[] }): void {
    const { grant } = settlement;
    const { links } = at;
    if (this.#on.drain) {
      this.#on.instruments.drainLeases.add(1, { [keys.outcome]: grant ? 'transferred' : 'released' });
    }
    const attributes = () => ({ ...this.#settleAttributes(request), [spanKeys.waiting]: settlement.waiting });
    if (!grant) {
      this.#recorder.record({ operation: 'release', outcome: 'released', at, attributes, links });
      this.#on.leases.ended(request.grant.key);
      return;
    }
    const span = this.#recorder.record({
      operation: 'transfer',
      outcome: 'transferred',
      at,
      links,
      attributes: () => ({
        ...attributes(),
        ...tokenOf(grant),
        [spanKeys.owner]: grant.owner,
        [spanKeys.previousOwner]: request.grant.owner,
        [spanKeys.ttlMs]: grant.ttlMs,
      }),
    });
    this.#remember(grant, span, at);
  }

  #settleFailed(request: SettleRequest, at: Moment & { links: Link[] }, error: unknown): void {
    const { links } = at;
    const attributes = () => this.#settleAttributes(request);
    const lost = isSignalsError(error, 'SIG_LEASE_LOST', 'SIG_LEASE_EXPIRED');
    if (lost) this.#on.leases.ended(request.grant.key);
    if (request.next) {
      this.#recorder.record({ operation: 'transfer', outcome: lost ? 'not_owner' : 'error', at, attributes, links, error });
      return;
    }
    const outcome = isSignalsError(error, 'SIG_LEASE_EXPIRED') ? 'expired' : lost ? 'not_owner' : 'error';
    this.#recorder.record({ operation: 'release', outcome, at, attributes, links, error });
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

  #remember(grant: Grant, span: Span, at: Moment): void {
    this.#on.leases.acquired(grant.key, {
      owner: grant.owner,
      acquiredIn: span.spanContext(),
      askedAtMs: at.start.monotonicMs,
      ...(grant.fencingToken === undefined ? {} : { fencingToken: grant.fencingToken }),
    });
  }

  #claimAttributes(thread: ThreadRef, claim: LeaseClaim): Attributes {
    return { ...this.#on.threadAttributes(thread), [spanKeys.owner]: claim.owner, [spanKeys.ttlMs]: claim.ttlMs };
  }

  #settleAttributes(request: SettleRequest): Attributes {
    return {
      ...this.#on.threadAttributes(request.thread),
      ...tokenOf(request.grant),
      [spanKeys.owner]: request.grant.owner,
      [spanKeys.ttlMs]: request.grant.ttlMs,
      [spanKeys.runConsumed]: request.consumed.length,
    };
  }
}

/** The request that is being served, else the trace that came with the signal. */
function senderContext(request: DeliverRequest): Context {
  const active = context.active();
  if (trace.getSpanContext(active) || !request.envelope.trace) return active;
  return contextOf(request.envelope.trace);
}

function deliveryAttributes(delivery: Delivery): Attributes {
  return {
    [keys.decision]: delivery.duplicate ? 'duplicate' : delivery.action,
    [spanKeys.duplicate]: delivery.duplicate,
    ...(delivery.owner === undefined ? {} : { [spanKeys.owner]: delivery.owner }),
    ...tokenOf(delivery.grant),
  };
}

function tokenOf(grant: Grant | undefined): Attributes {
  return grant?.fencingToken === undefined ? {} : { [spanKeys.fencingToken]: grant.fencingToken };
}

/** The store answered, and said no to the signal. */
function isRefusal(error: unknown): boolean {
  return isSignalsError(error) && !isSignalsError(error, 'SIG_STORE_UNAVAILABLE');
}
