/**
 * The thread mailbox on any PubSub with leases: the embedded default, and what custom backends get.
 *
 * A thread's signals and output live in the memory of the process that owns it. They follow the lease: who acquires a thread
 * asks its peers for what they hold of it. A signal for a thread that another instance owns is sent there and
 * acknowledged from there.
 *
 * What it does not promise, because the contracts of PubSub and leases don't:
 * - A process that dies takes the signals that waited with it along, unless it was closed in order (`close`).
 * - Checking the lease and writing are two steps. An owner that loses its lease between them may still put out a chunk or
 *   settle; the lease's deadline (L1) is what keeps that from happening.
 * - Ids are remembered by processes: one that was accepted by a process that has gone, or by two cut off from each other,
 *   may be accepted again.
 * - The order of signals that two processes accepted while they could not hear each other is that of their clocks.
 *
 * Its parts: `inbox.ts` what waits, `output-*.ts` what was put out, `peer-link.ts` how instances talk, `peer-answers.ts` what
 * they ask of each other, `thread-leases.ts` the leases, `local-threads.ts` what this process holds.
 */

import type { Chunk } from '../contracts/agent.ts';
import type { LeaseProvider } from '../contracts/lease-provider.ts';
import type { MailboxOperations } from '../contracts/mailbox-operations.ts';
import type { PubSub } from '../contracts/pubsub.ts';
import { parseOwner, threadLeaseKey, threadName } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type {
  AbortOutcome, AbortRequest, Appended, DeliverRequest, Delivery, FollowRequest, Grant, LeaseClaim, MailboxLimits, MailboxListener,
  OutputChunk, Settlement, SettleRequest, Taken, TakeRequest, ThreadMailbox, ThreadState,
} from '../contracts/thread-mailbox.ts';
import { elapsedMs, instant, systemClock } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';
import { errorMessage, invalidOption, SignalsError } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { sleep } from '../core/waits.ts';
import { encodeEnvelope } from './pubsub-mailbox/inbox.ts';
import { LocalThreads } from './pubsub-mailbox/local-threads.ts';
import type { LocalThread } from './pubsub-mailbox/local-threads.ts';
import { LocalOperations, PubSubMailboxOperations } from './pubsub-mailbox/operations.ts';
import { OutputFeeds } from './pubsub-mailbox/output-feeds.ts';
import { followOutput } from './pubsub-mailbox/output-reader.ts';
import { PeerAnswers } from './pubsub-mailbox/peer-answers.ts';
import { beginning } from './pubsub-mailbox/positions.ts';
import { ThreadLeases } from './pubsub-mailbox/thread-leases.ts';
import { Turns } from './pubsub-mailbox/turns.ts';

export interface PubSubMailboxOptions {
  pubsub: PubSub;
  /** Must tell owners apart; `NoopLeaseProvider` does not. In one process, in-memory leases do. */
  leases: LeaseProvider;
  /** The instance part of this process's owners. */
  instanceId: string;
  limits: MailboxLimits;
  clock?: Clock;
  logger?: Logger;
  /** Longest wait for another instance, ms. Default 2000. */
  replyLimitMs?: number;
}

const notAborted: AbortOutcome = { aborted: false, cancelledSignalIds: [] };

/** Between two looks at a thread whose owner changes while we look. */
const retryPauseMs = 5;
/** How long an owner that was seen is taken for alive. */
const ownerSeenForMs = 1000;

export class PubSubMailbox implements ThreadMailbox {
  /** Cancelling, dead letters and the search for a run, over all instances that answer. */
  readonly operations: MailboxOperations;
  readonly #instanceId: string;
  readonly #limits: MailboxLimits;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #replyLimitMs: number;
  readonly #leases: ThreadLeases;
  readonly #threads: LocalThreads;
  readonly #feeds: OutputFeeds;
  readonly #peers: PeerAnswers;
  readonly #turns = new Turns();
  readonly #listeners = new Set<MailboxListener>();

  constructor(options: PubSubMailboxOptions) {
    this.#instanceId = options.instanceId;
    this.#limits = options.limits;
    this.#clock = options.clock ?? systemClock;
    this.#logger = options.logger ?? silentLogger;
    this.#replyLimitMs = options.replyLimitMs ?? 2000;
    this.#leases = new ThreadLeases(options.leases, this.#clock);
    this.#threads = new LocalThreads(options.limits, this.#clock);
    this.#feeds = new OutputFeeds(options.pubsub);
    const parts = { threads: this.#threads, leases: this.#leases, turns: this.#turns, clock: this.#clock };
    const operations = new LocalOperations({ ...parts, onWaiting: local => this.#seeTo(local), onDeserted: local => this.#endDeadRun(local) });
    this.#peers = new PeerAnswers({
      ...parts,
      operations,
      pubsub: options.pubsub,
      instanceId: options.instanceId,
      logger: this.#logger,
      replyLimitMs: this.#replyLimitMs,
      deliver: request => this.#deliverAsOwner(request),
      abort: (thread, request) => this.#abortOwn(thread, request),
      due: limit => this.#dueHere(limit),
      onArrival: thread => this.#hint(listener => listener.onArrival(thread)),
      onOrphan: thread => this.#hint(listener => listener.onOrphan(thread)),
    });
    this.operations = new PubSubMailboxOperations(operations, this.#peers.link);
  }

  /** Errors: those of the port, and `SIG_OWNER_UNREACHABLE` when the owner's instance gives no answer. */
  async deliver(request: DeliverRequest): Promise<Delivery> {
    const text = encodeEnvelope(request, this.#limits.signalMaxBytes);
    if (request.claim) this.#requireOwn(request.claim);
    const { thread } = request;
    await this.#peers.start();
    return await this.#untilSettled(thread, async () => {
      const owner = await this.#leases.ownerOf(thread);
      if (owner !== undefined && !this.#isOwn(owner)) return await this.#peers.deliver(instanceOf(owner), request);
      return await this.#turns.run(threadName(thread), () => this.#deliverHere(request, text));
    });
  }

  /** The owner may change between looking and acting: then look again, within a limit. */
  async #untilSettled<T>(thread: ThreadRef, attempt: () => Promise<T | undefined>): Promise<T> {
    const startedAt = instant(this.#clock);
    for (;;) {
      const outcome = await attempt();
      if (outcome !== undefined) return outcome;
      if (elapsedMs(this.#clock, startedAt) > this.#replyLimitMs) {
        throw new SignalsError('SIG_OWNER_UNREACHABLE', `the owner of ${threadLeaseKey(thread)} can't be found`);
      }
      await sleep(this.#clock, retryPauseMs);
    }
  }

  /** For a peer that took us for the owner; `undefined` when we are not. */
  async #deliverAsOwner(request: DeliverRequest): Promise<Delivery | undefined> {
    const text = encodeEnvelope(request, this.#limits.signalMaxBytes);
    return await this.#turns.run(threadName(request.thread), async () => {
      const owner = await this.#leases.ownerOf(request.thread);
      return owner !== undefined && this.#isOwn(owner) ? await this.#accept(request, text, owner) : undefined;
    });
  }

  async #deliverHere(request: DeliverRequest, text: string): Promise<Delivery | undefined> {
    const owner = await this.#leases.ownerOf(request.thread);
    if (owner !== undefined) return this.#isOwn(owner) ? await this.#accept(request, text, owner) : undefined;
    const { claim, ifIdle, expectedRunId, thread } = request;
    const local = this.#threads.at(thread);
    const known = this.#seen(request);
    if (known) return { action: known, duplicate: true };
    if (expectedRunId === undefined && ifIdle.behavior === 'wake' && claim) return await this.#wake(request, text, claim);
    const elsewhere = await this.#peers.seen(local, request.envelope.signal.id);
    if (elsewhere) return { action: elsewhere, duplicate: true };
    const delivery = await this.#accept(request, text, undefined);
    // Whoever acquired the thread while the peers were asked has collected before this signal was here.
    await this.#seeTo(local);
    return delivery;
  }

  /** Something waits here that the owner, or everybody where there is none, must know of. */
  async #seeTo(local: LocalThread): Promise<void> {
    const owner = await this.#leases.ownerOf(local.ref);
    if (owner !== undefined) await this.#remind(local, owner);
    else await this.#noteIfWaiting(local);
  }

  async #wake(request: DeliverRequest, text: string, claim: LeaseClaim): Promise<Delivery | undefined> {
    const grant = await this.#leases.acquire(request.thread, claim);
    if (!grant) return undefined; // another was faster: the signal is for its run
    const local = this.#threads.at(request.thread);
    let delivery: Delivery | undefined;
    try {
      await this.#peers.collect(local, claim.owner);
      delivery = await this.#accept(request, text, undefined);
    } finally {
      // Refused, or seen by a peer before: nobody asked for a run.
      if (!delivery || delivery.duplicate) await this.#giveUp(local, claim.owner);
    }
    if (delivery.duplicate) return delivery;
    await this.#begin(local, grant);
    return { ...delivery, owner: claim.owner, grant };
  }

  /** Synchronous from the look at the ids to the append, but for a retry that gets its grant again. */
  async #accept(request: DeliverRequest, text: string, owner: string | undefined): Promise<Delivery> {
    const { thread, claim, expectedRunId } = request;
    const local = this.#threads.at(thread);
    const whose = owner === undefined ? {} : { owner };
    const known = this.#seen(request);
    if (known) {
      const grant = claim && owner === claim.owner ? await this.#leases.acquire(thread, claim) : undefined;
      return { action: known, duplicate: true, ...whose, ...(grant && { grant }) };
    }
    if (expectedRunId !== undefined && (owner === undefined || runOf(owner) !== expectedRunId)) {
      throw new SignalsError('SIG_RUN_UNKNOWN', `run ${expectedRunId} is not the one that is on`);
    }
    if (expectedRunId !== undefined && isBlocked(local, request)) return { action: 'blocked', duplicate: false, ...whose };
    const action = local.inbox.accept(request, text, owner === undefined ? 'idle' : 'active', this.#clock.wallMs());
    if (action === 'deliver') this.#hint(listener => listener.onArrival(local.ref));
    return { action, duplicate: false, ...whose };
  }

  #seen({ thread, envelope }: DeliverRequest): Delivery['action'] | undefined {
    return this.#threads.find(thread)?.inbox.seen(envelope.signal.id, this.#clock.wallMs());
  }

  async claim(thread: ThreadRef, claim: LeaseClaim): Promise<Grant | undefined> {
    this.#requireOwn(claim);
    await this.#peers.start();
    return await this.#turns.run(threadName(thread), async () => {
      const local = this.#threads.at(thread);
      const owner = await this.#leases.ownerOf(thread);
      if (owner !== undefined && owner !== claim.owner) {
        await this.#remind(local, owner);
        return undefined;
      }
      if (local.inbox.waking === 0 && this.#peers.none) return undefined;
      const grant = await this.#leases.acquire(thread, claim);
      const { run } = local;
      const isRetry = run?.owner === claim.owner && run.fencingToken === grant?.fencingToken;
      if (!grant || isRetry) return grant; // another's, or given before and its reply lost
      await this.#peers.collect(local, claim.owner);
      if (local.inbox.waking === 0) {
        await this.#giveUp(local, claim.owner);
        return undefined;
      }
      await this.#begin(local, grant);
      return grant;
    });
  }

  async take({ thread, grant, join }: TakeRequest): Promise<Taken> {
    return await this.#asOwner(thread, grant, async (local, run) => {
      const taken = local.inbox.take(grant.owner, join, this.#clock.wallMs());
      run.agentId ??= taken.entries[0]?.envelope.agentId;
      return { ...taken, abortRequested: run.abortRequested };
    });
  }

  async settle(request: SettleRequest): Promise<Settlement> {
    const { thread, grant, consumed, returned = [], next } = request;
    if (next) this.#requireOwn(next);
    return await this.#turns.run(threadName(thread), async () => {
      const local = this.#threads.at(thread);
      const owner = await this.#leases.ownerOf(thread);
      const { run } = local;
      if (run?.owner !== grant.owner || run.fencingToken !== grant.fencingToken || owner !== grant.owner) {
        return await this.#settledBefore(local, owner, request);
      }
      const waiting = local.inbox.wakingWithout(consumed);
      if (waiting > 0 && next) {
        const nextGrant = await this.#leases.transfer(thread, grant.owner, next);
        if (!nextGrant) throw lost(grant);
        this.#record(local, consumed, returned);
        await this.#begin(local, nextGrant);
        return { grant: nextGrant, waiting };
      }
      this.#record(local, consumed, returned);
      await this.#leases.release(thread, grant.owner);
      local.end();
      await this.#noteIfWaiting(local);
      return { waiting };
    });
  }

  /** A retry after a lost reply finds its work done, or done but for the entries. Anyone else has lost the lease. */
  async #settledBefore(local: LocalThread, owner: string | undefined, request: SettleRequest): Promise<Settlement> {
    const { thread, grant, consumed, returned = [], next } = request;
    if (next && owner === next.owner) {
      const nextGrant = await this.#leases.acquire(thread, next);
      if (!nextGrant) throw lost(grant);
      if (local.run?.owner !== next.owner) {
        this.#record(local, consumed, returned);
        await this.#begin(local, nextGrant);
      }
      return { grant: nextGrant, waiting: local.inbox.waking };
    }
    if (owner !== undefined || consumed.length === 0 || local.inbox.hasAny(consumed)) {
      if (local.run?.owner !== grant.owner || !local.run.settling) throw lost(grant);
    }
    if (local.run?.owner === grant.owner) local.end();
    return { waiting: local.inbox.waking };
  }

  #record(local: LocalThread, consumed: readonly string[], returned: readonly string[]): void {
    local.inbox.remove(consumed);
    if (!local.run || local.run.settling) return;
    local.run.settling = true;
    local.inbox.account(local.run.owner, returned);
  }

  /** What waited here may have gone to the next owner meanwhile. */
  async spare(thread: ThreadRef, { owner }: Grant): Promise<void> {
    this.#threads.find(thread)?.inbox.account(owner);
    await this.#peers.spare(thread, owner);
  }

  async append(thread: ThreadRef, grant: Grant, chunks: readonly Chunk[]): Promise<Appended> {
    return await this.#asOwner(thread, grant, async (local, run) => {
      await this.#put(local, chunks);
      return { abortRequested: run.abortRequested };
    });
  }

  async #put(local: LocalThread, chunks: readonly Chunk[]): Promise<void> {
    const batch = local.log.append(chunks, this.#clock.wallMs());
    local.outputUntilMs = this.#clock.monotonicMs() + this.#limits.outputRetentionMs;
    await this.#feeds.publish(local.ref, batch).catch((error: unknown) => {
      // The log has it: those who follow see the gap, or look after a while.
      this.#logger.warn('output was not published', { error: errorMessage(error) });
    });
  }

  async #begin(local: LocalThread, grant: Grant): Promise<void> {
    await this.#endDeadRun(local);
    local.begin(grant, this.#clock.monotonicMs());
  }

  /** A run that was never settled: those who read its output are told. */
  async #endDeadRun(local: LocalThread): Promise<void> {
    local.end();
    const { cutShort } = local;
    local.cutShort = undefined;
    if (cutShort !== undefined && local.log.last !== beginning) await this.#put(local, [cutShortChunk(cutShort)]);
  }

  follow(request: FollowRequest): Promise<AsyncIterable<OutputChunk>> {
    const { link } = this.#peers;
    return followOutput({ threads: this.#threads, feeds: this.#feeds, link, leases: this.#leases, clock: this.#clock }, request);
  }

  async abort(thread: ThreadRef, request: AbortRequest = {}): Promise<AbortOutcome> {
    const { expectedRunId } = request;
    await this.#peers.start();
    return await this.#untilSettled(thread, async () => {
      const owner = await this.#leases.ownerOf(thread);
      if (owner === undefined || (expectedRunId !== undefined && runOf(owner) !== expectedRunId)) return notAborted;
      if (this.#isOwn(owner)) return await this.#abortOwn(thread, request);
      return await this.#peers.abort(instanceOf(owner), thread, request);
    });
  }

  /** `undefined` when this instance is not the owner. */
  async #abortOwn(thread: ThreadRef, { expectedRunId, clearWaiting = false }: AbortRequest): Promise<AbortOutcome | undefined> {
    return await this.#turns.run(threadName(thread), async () => {
      const owner = await this.#leases.ownerOf(thread);
      const local = this.#threads.at(thread);
      const { run } = local;
      if (owner === undefined || !this.#isOwn(owner)) return undefined;
      const runId = runOf(owner);
      if (run?.owner !== owner || (expectedRunId !== undefined && runId !== expectedRunId)) return notAborted;
      run.abortRequested = true;
      const cancelledSignalIds = clearWaiting ? local.inbox.cancel(undefined, owner) : [];
      this.#hint(listener => listener.onAbort({ ...thread }, runId));
      return { aborted: true, runId, cancelledSignalIds };
    });
  }

  async due(limit: number): Promise<ThreadRef[]> {
    await this.#peers.start();
    for (const { ref } of this.#threads.prune()) await this.#feeds.clear(ref);
    const here = await this.#dueHere(limit);
    const due = new Map([...here, ...(await this.#peers.due(limit))].map(thread => [threadName(thread), thread]));
    return [...due.values()].slice(0, limit);
  }

  async #dueHere(limit: number): Promise<ThreadRef[]> {
    const due: ThreadRef[] = [];
    for (const local of this.#threads.waiting()) {
      if (due.length >= limit) break;
      if (this.#clock.monotonicMs() < local.lookAtMs) continue;
      const owner = await this.#leases.ownerOf(local.ref);
      if (owner === undefined) due.push(local.ref);
      else await this.#turns.run(local.name, () => this.#remind(local, owner));
    }
    return due;
  }

  /** Signals wait here and the thread has an owner: that owner must know of them, and have them. */
  async #remind(local: LocalThread, owner: string): Promise<void> {
    local.lookAtMs = this.#clock.monotonicMs() + ownerSeenForMs;
    if (local.inbox.size === 0) return;
    if (this.#isOwn(owner)) this.#hint(listener => listener.onArrival(local.ref));
    else if ((await this.#peers.push(instanceOf(owner), local)) === 'refused') await this.#noteIfWaiting(local);
  }

  async inspect(thread: ThreadRef): Promise<ThreadState> {
    await this.#peers.start();
    const owner = await this.#leases.ownerOf(thread);
    return await this.#peers.state(thread, owner);
  }

  async waiting(limit: number): Promise<ThreadState[]> {
    await this.#peers.start();
    const threads = await this.#peers.waiting(limit);
    return await Promise.all(threads.map(thread => this.inspect(thread)));
  }

  async listen(instanceId: string, listener: MailboxListener): Promise<() => Promise<void>> {
    if (instanceId !== this.#instanceId) throw invalidOption('instanceId', instanceId, `this mailbox's own, ${this.#instanceId}`);
    await this.#peers.start();
    this.#listeners.add(listener);
    listener.onResync();
    return async () => void this.#listeners.delete(listener);
  }

  /** Hands what still waits here to a peer; without one it is lost, and said. */
  async close(): Promise<void> {
    this.#listeners.clear();
    await this.#peers.close();
  }

  async #asOwner<T>(
    thread: ThreadRef,
    grant: Grant,
    step: (local: LocalThread, run: NonNullable<LocalThread['run']>) => Promise<T>,
  ): Promise<T> {
    return await this.#turns.run(threadName(thread), async () => {
      const local = this.#threads.at(thread);
      const owner = await this.#leases.ownerOf(thread);
      const { run } = local;
      if (owner !== grant.owner || run?.owner !== owner || run.fencingToken !== grant.fencingToken) throw lost(grant);
      local.lookAtMs = this.#clock.monotonicMs() + run.ttlMs;
      return await step(local, run);
    });
  }

  /** A lease that was taken and leads to no run. What waits is for somebody else to claim. */
  async #giveUp(local: LocalThread, owner: string): Promise<void> {
    await this.#leases.release(local.ref, owner);
    local.end();
    await this.#noteIfWaiting(local);
  }

  /** The thread has no owner as far as is known: somebody must look if a signal that wakes is waiting (S3). */
  async #noteIfWaiting(local: LocalThread): Promise<void> {
    local.lookAtMs = 0;
    if (local.inbox.waking === 0) return;
    this.#hint(listener => listener.onOrphan(local.ref));
    await this.#peers.announceOrphan(local.ref);
  }

  #hint(tell: (listener: MailboxListener) => void): void {
    for (const listener of this.#listeners) {
      try {
        tell(listener);
      } catch (error) {
        this.#logger.error('a mailbox listener failed', { error: errorMessage(error) });
      }
    }
  }

  #isOwn(owner: string): boolean {
    return instanceOf(owner) === this.#instanceId;
  }

  #requireOwn(claim: LeaseClaim): void {
    if (!this.#isOwn(claim.owner)) throw invalidOption('owner', claim.owner, `${this.#instanceId}/<run>`);
  }
}

function instanceOf(owner: string): string {
  return parseOwner(owner).instanceId;
}

function runOf(owner: string): string {
  return parseOwner(owner).runId;
}

/** The run that is on is another agent's. */
function isBlocked({ run, inbox }: LocalThread, { envelope: { agentId } }: DeliverRequest): boolean {
  return (run?.agentId ?? inbox.nextAgentId ?? agentId) !== agentId;
}

/** No more will come of this run; it ends here for those who read. */
function cutShortChunk(runId: string): Chunk {
  const error = { code: 'SIG_LEASE_LOST', message: 'the owner of this run is gone; what still waits is run again' };
  return { type: 'error', runId, from: 'AGENT', payload: { error } };
}

function lost(grant: Grant): SignalsError {
  return new SignalsError('SIG_LEASE_LOST', `${grant.owner} no longer owns ${grant.key}`, {
    details: { key: grant.key, owner: grant.owner, fencingToken: grant.fencingToken },
  });
}
