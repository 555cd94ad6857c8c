/** What the steps of a mailbox mean for leases: which operation each was, and how it ended. */

import { ROOT_CONTEXT } from '@opentelemetry/api';
import type { Attributes, Context, Link, Span } from '@opentelemetry/api';

import type {
  DeliverRequest,
  Delivery,
  Grant,
  LeaseClaim,
  Settlement,
  SettleRequest,
} from '../contracts/thread-mailbox.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import { isSignalsError } from '../core/errors.ts';
import type { AcquireOutcome } from '../core/outcomes.ts';
import type { Instrumentation } from './instrumentation.ts';
import { failureOutcome, LeaseRecorder } from './lease-recorder.ts';
import type { Moment } from './lease-recorder.ts';
import { keys, spanKeys } from './names.ts';

export class MailboxRecorder {
  readonly #on: Instrumentation;
  readonly #recorder: LeaseRecorder;
  /** Leases that a drain offers to peers: how the offer ended is known when it is ended. */
  readonly #offers = new WeakSet<Grant>();

  constructor(instrumentation: Instrumentation) {
    this.#on = instrumentation;
    this.#recorder = new LeaseRecorder(instrumentation);
  }

  /** Before an operation is asked for. */
  begin(within: Context): Moment {
    return { start: this.#recorder.now(), within };
  }

  signalAttributes({ thread, envelope }: DeliverRequest): Attributes {
    return {
      ...this.#on.threadAttributes(thread),
      [spanKeys.agentId]: envelope.agentId,
      [spanKeys.signalId]: envelope.signal.id,
      [spanKeys.signalType]: envelope.signal.type,
    };
  }

  delivered(request: DeliverRequest, delivery: Delivery, at: Moment): void {
    const { claim, thread } = request;
    if (!claim) return;
    const { grant, owner } = delivery;
    if (grant) this.acquired(thread, claim, 'acquired', { ...at, grant, delivery });
    // Without an owner the lease was not asked for: the signal does not wake, or was dropped.
    else if (owner !== undefined && owner !== claim.owner && !delivery.duplicate) {
      this.acquired(thread, claim, 'held', { ...at, delivery });
    }
  }

  acquired(
    thread: ThreadRef,
    claim: LeaseClaim,
    outcome: AcquireOutcome,
    at: Moment & { grant?: Grant; delivery?: Delivery },
  ): void {
    const { grant, delivery } = at;
    if (grant?.unownedMs !== undefined) this.#on.instruments.leaseHandoffGap.record(grant.unownedMs / 1000);
    const span = this.#recorder.record({
      operation: 'acquire',
      outcome,
      at,
      attributes: () => ({
        ...this.#claimAttributes(thread, claim),
        ...tokenOf(grant),
        ...(grant?.unownedMs === undefined ? {} : { [spanKeys.unownedMs]: grant.unownedMs }),
        // Who has it instead.
        ...(grant || delivery?.owner === undefined ? {} : { [spanKeys.currentOwner]: delivery.owner }),
      }),
    });
    if (grant) this.#remember(grant, span, at);
  }

  acquireFailed(thread: ThreadRef, claim: LeaseClaim, at: Moment, error: unknown): void {
    const attributes = () => this.#claimAttributes(thread, claim);
    this.#recorder.record({ operation: 'acquire', outcome: failureOutcome(error), at, attributes, error });
  }

  /**
   * A drain, else the run that ends here. Not the active context: a thread is run in that of whoever first woke it, and its
   * last run may be hours later.
   */
  settleContext({ key, owner }: Grant): Context {
    return this.#on.drain ?? this.#on.leases.of(key, owner)?.run ?? ROOT_CONTEXT;
  }

  settled(request: SettleRequest, settlement: Settlement, at: Moment & { links: Link[] }): void {
    if (settlement.offered) {
      this.#offers.add(request.grant);
      return;
    }
    const { grant } = settlement;
    const { links } = at;
    this.#drained(grant ? 'transferred' : 'released');
    const attributes = () => ({ ...this.#settleAttributes(request), [spanKeys.waiting]: settlement.waiting });
    if (!grant) {
      if (this.isOffered(request)) {
        this.#recorder.record({ operation: 'transfer', outcome: 'no_candidate', at, attributes, links });
      }
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

  /** The lease was offered to peers; if it is no longer ours, one of them has it. */
  isOffered(request: SettleRequest): boolean {
    return this.#offers.has(request.grant);
  }

  settleFailed(request: SettleRequest, at: Moment & { links: Link[] }, error: unknown): void {
    const { links } = at;
    const attributes = () => this.#settleAttributes(request);
    const lost = isSignalsError(error, 'SIG_LEASE_LOST', 'SIG_LEASE_EXPIRED');
    if (lost) this.#on.leases.ended(request.grant.key);
    if (lost && this.isOffered(request)) {
      this.#drained('transferred');
      this.#recorder.record({ operation: 'transfer', outcome: 'transferred', at, attributes, links });
      return;
    }
    if (request.next) {
      this.#recorder.record({ operation: 'transfer', outcome: lost ? 'not_owner' : 'error', at, attributes, links, error });
      return;
    }
    const outcome = isSignalsError(error, 'SIG_LEASE_EXPIRED') ? 'expired' : lost ? 'not_owner' : 'error';
    this.#recorder.record({ operation: 'release', outcome, at, attributes, links, error });
  }

  #drained(outcome: 'transferred' | 'released'): void {
    if (this.#on.drain) this.#on.instruments.drainLeases.add(1, { [keys.outcome]: outcome });
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

export function deliveryAttributes(delivery: Delivery): Attributes {
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
