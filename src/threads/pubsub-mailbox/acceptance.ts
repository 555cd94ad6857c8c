/** How a signal comes into an inbox: at the thread's owner, or, where there is none, at whoever becomes it. */

import { encodeEnvelope } from '../../contracts/stored-envelope.ts';
import { threadName } from '../../contracts/thread.ts';
import type { DeliverRequest, Delivery, LeaseClaim } from '../../contracts/thread-mailbox.ts';
import { SignalsError } from '../../core/errors.ts';
import type { Attention } from './attention.ts';
import type { SeenSignal } from './inbox.ts';
import type { LocalThread } from './local-threads.ts';
import type { Ownership } from './ownership.ts';
import type { PeerAnswers } from './peer-answers.ts';
import { instanceOf, isOwn, runOf, untilSettled } from './shared.ts';
import type { Shared } from './shared.ts';

export class Acceptance {
  readonly #shared: Shared;
  readonly #peers: PeerAnswers;
  readonly #ownership: Ownership;
  readonly #attention: Attention;

  constructor(shared: Shared, peers: PeerAnswers, ownership: Ownership, attention: Attention) {
    this.#shared = shared;
    this.#peers = peers;
    this.#ownership = ownership;
    this.#attention = attention;
  }

  async deliver(request: DeliverRequest): Promise<Delivery> {
    const { limits, leases, turns } = this.#shared;
    const { thread } = request;
    const text = encodeEnvelope(request, limits.signalMaxBytes);
    await this.#peers.start();
    return await untilSettled(this.#shared, thread, async () => {
      const owner = await leases.ownerOf(thread);
      if (owner !== undefined && !isOwn(this.#shared, owner)) return await this.#peers.deliver(instanceOf(owner), request);
      return await turns.run(threadName(thread), () => this.#deliverHere(request, text));
    });
  }

  /** For a peer that took us for the owner; `undefined` when we are not. */
  async deliverAsOwner(request: DeliverRequest): Promise<Delivery | undefined> {
    const { limits, leases, turns } = this.#shared;
    const text = encodeEnvelope(request, limits.signalMaxBytes);
    return await turns.run(threadName(request.thread), async () => {
      const owner = await leases.ownerOf(request.thread);
      return owner !== undefined && isOwn(this.#shared, owner) ? await this.#accept(request, text, owner) : undefined;
    });
  }

  async #deliverHere(request: DeliverRequest, text: string): Promise<Delivery | undefined> {
    const { claim, ifIdle, expectedRunId, thread } = request;
    const owner = await this.#shared.leases.ownerOf(thread);
    if (owner !== undefined) return isOwn(this.#shared, owner) ? await this.#accept(request, text, owner) : undefined;
    const local = this.#shared.threads.at(thread);
    const known = this.#seen(request);
    if (known) return duplicateOf(known);
    if (expectedRunId === undefined && ifIdle.behavior === 'wake' && claim) return await this.#wake(request, text, claim);
    const elsewhere = await this.#peers.seen(local, request.envelope.signal.id);
    if (elsewhere) return duplicateOf(elsewhere);
    const delivery = await this.#accept(request, text, undefined);
    // Whoever acquired the thread while the peers were asked has collected before this signal was here.
    await this.#attention.seeTo(local);
    return delivery;
  }

  async #wake(request: DeliverRequest, text: string, claim: LeaseClaim): Promise<Delivery | undefined> {
    const grant = await this.#shared.leases.acquire(request.thread, claim);
    if (!grant) return undefined; // another was faster: the signal is for its run
    const local = this.#shared.threads.at(request.thread);
    let delivery: Delivery | undefined;
    try {
      await this.#peers.collect(local, claim.owner);
      delivery = await this.#accept(request, text, undefined, claim.owner);
    } finally {
      // Refused, or seen by a peer before: nobody asked for a run.
      if (!delivery || delivery.duplicate) await this.#ownership.giveUp(local, claim.owner);
    }
    if (delivery.duplicate) return delivery;
    await this.#ownership.begin(local, grant);
    return { ...delivery, owner: claim.owner, grant };
  }

  /**
   * `whose`: who runs it, the owner or whoever is about to be. Synchronous from the look at the ids to the append, but for a retry
   * that gets its grant again.
   */
  async #accept(request: DeliverRequest, text: string, owner: string | undefined, whose = owner): Promise<Delivery> {
    const { leases, threads, listeners, clock } = this.#shared;
    const { thread, claim, expectedRunId } = request;
    const local = threads.at(thread);
    const known = this.#seen(request);
    if (known) {
      const grant = claim && owner === claim.owner ? await leases.acquire(thread, claim) : undefined;
      return { ...duplicateOf(known), ...(grant && { grant }) };
    }
    if (expectedRunId !== undefined && (owner === undefined || runOf(owner) !== expectedRunId)) {
      throw new SignalsError('SIG_RUN_UNKNOWN', `run ${expectedRunId} is not the one that is on`);
    }
    if (expectedRunId !== undefined && isBlocked(local, request)) return { action: 'blocked', duplicate: false, ...(owner !== undefined && { owner }) };
    const action = local.inbox.accept(request, text, owner === undefined ? 'idle' : 'active', whose, clock.wallMs());
    if (action === 'deliver') listeners.hint(listener => listener.onArrival(local.ref));
    return { action, duplicate: false, ...(owner !== undefined && { owner }) };
  }

  #seen({ thread, envelope }: DeliverRequest): SeenSignal | undefined {
    return this.#shared.threads.find(thread)?.inbox.seen(envelope.signal.id, this.#shared.clock.wallMs());
  }
}

/** A retry is told what became of it, whoever owns the thread by now. */
function duplicateOf({ action, owner }: SeenSignal): Delivery {
  return { action, duplicate: true, ...(owner !== undefined && { owner }) };
}

/** The run that is on is another agent's. */
function isBlocked({ run, inbox }: LocalThread, { envelope: { agentId } }: DeliverRequest): boolean {
  return (run?.agentId ?? inbox.nextAgentId ?? agentId) !== agentId;
}
