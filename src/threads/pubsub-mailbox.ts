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
 * Its parts, in `pubsub-mailbox/`:
 * - acceptance.ts     how a signal comes in            - ownership.ts        what a thread's owner does
 * - attention.ts      who must look at what waits      - thread-leases.ts    the leases
 * - local-threads.ts  what this process holds: of each thread an inbox.ts and an output-log.ts
 * - output-feeds.ts, output-reader.ts  following output - operations.ts       what operators do
 * - peer-link.ts      how instances talk               - peer-answers.ts     what they ask of each other
 */

import type { Chunk } from '../contracts/agent.ts';
import type { LeaseProvider } from '../contracts/lease-provider.ts';
import type { MailboxOperations } from '../contracts/mailbox-operations.ts';
import type { PubSub } from '../contracts/pubsub.ts';
import { threadName } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type {
  AbortOutcome, AbortRequest, Appended, DeliverRequest, Delivery, FollowRequest, Grant, LeaseClaim, MailboxLimits,
  MailboxListener, OutputChunk, Settlement, SettleRequest, Taken, TakeRequest, ThreadMailbox, ThreadState,
} from '../contracts/thread-mailbox.ts';
import { systemClock } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';
import { invalidOption } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { Acceptance } from './pubsub-mailbox/acceptance.ts';
import { Attention } from './pubsub-mailbox/attention.ts';
import { Listeners } from './pubsub-mailbox/listeners.ts';
import { LocalThreads } from './pubsub-mailbox/local-threads.ts';
import { LocalOperations, PubSubMailboxOperations } from './pubsub-mailbox/operations.ts';
import { OutputFeeds } from './pubsub-mailbox/output-feeds.ts';
import { followOutput } from './pubsub-mailbox/output-reader.ts';
import { notAborted, Ownership } from './pubsub-mailbox/ownership.ts';
import { PeerAnswers } from './pubsub-mailbox/peer-answers.ts';
import { instanceOf, isOwn, runOf, untilSettled } from './pubsub-mailbox/shared.ts';
import type { Shared } from './pubsub-mailbox/shared.ts';
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

export class PubSubMailbox implements ThreadMailbox {
  /** Cancelling, dead letters and the search for a run, over all instances that answer. */
  readonly operations: MailboxOperations;
  readonly #shared: Shared;
  readonly #feeds: OutputFeeds;
  readonly #peers: PeerAnswers;
  readonly #attention: Attention;
  readonly #ownership: Ownership;
  readonly #acceptance: Acceptance;

  constructor({ pubsub, instanceId, limits, clock = systemClock, logger = silentLogger, replyLimitMs = 2000, leases }: PubSubMailboxOptions) {
    const shared: Shared = {
      instanceId, limits, clock, logger, replyLimitMs,
      leases: new ThreadLeases(leases, clock),
      threads: new LocalThreads(limits, clock),
      turns: new Turns(),
      listeners: new Listeners(logger),
    };
    const operations = new LocalOperations({
      ...shared,
      onWaiting: local => this.#attention.seeTo(local),
      onDeserted: async local => void (await this.#ownership.endDeadRun(local)),
    });
    this.#shared = shared;
    this.#feeds = new OutputFeeds(pubsub);
    this.#peers = new PeerAnswers({
      ...shared,
      pubsub,
      operations,
      deliver: request => this.#acceptance.deliverAsOwner(request),
      abort: (thread, request) => this.#ownership.abort(thread, request),
      due: limit => this.#attention.due(limit),
      onArrival: thread => shared.listeners.hint(listener => listener.onArrival(thread)),
      onOrphan: thread => shared.listeners.hint(listener => listener.onOrphan(thread)),
    });
    this.#attention = new Attention(shared, this.#peers);
    this.#ownership = new Ownership(shared, this.#peers, this.#feeds, this.#attention);
    this.#acceptance = new Acceptance(shared, this.#peers, this.#ownership, this.#attention);
    this.operations = new PubSubMailboxOperations(operations, this.#peers.link);
  }

  /** Errors: those of the port, and `SIG_OWNER_UNREACHABLE` when the owner's instance gives no answer. */
  async deliver(request: DeliverRequest): Promise<Delivery> {
    if (request.claim) this.#requireOwn(request.claim);
    return await this.#acceptance.deliver(request);
  }

  async claim(thread: ThreadRef, claim: LeaseClaim): Promise<Grant | undefined> {
    this.#requireOwn(claim);
    await this.#peers.start();
    return await this.#ownership.claim(thread, claim);
  }

  take(request: TakeRequest): Promise<Taken> {
    return this.#ownership.take(request);
  }

  async settle(request: SettleRequest): Promise<Settlement> {
    if (request.next) this.#requireOwn(request.next);
    return await this.#ownership.settle(request);
  }

  spare(thread: ThreadRef, grant: Grant): Promise<void> {
    return this.#ownership.spare(thread, grant);
  }

  append(thread: ThreadRef, grant: Grant, chunks: readonly Chunk[]): Promise<Appended> {
    return this.#ownership.append(thread, grant, chunks);
  }

  follow(request: FollowRequest): Promise<AsyncIterable<OutputChunk>> {
    return followOutput({ ...this.#shared, feeds: this.#feeds, link: this.#peers.link }, request);
  }

  async abort(thread: ThreadRef, request: AbortRequest = {}): Promise<AbortOutcome> {
    const { expectedRunId } = request;
    await this.#peers.start();
    return await untilSettled(this.#shared, thread, async () => {
      const owner = await this.#shared.leases.ownerOf(thread);
      if (owner === undefined || (expectedRunId !== undefined && runOf(owner) !== expectedRunId)) return notAborted;
      if (isOwn(this.#shared, owner)) return await this.#ownership.abort(thread, request);
      return await this.#peers.abort(instanceOf(owner), thread, request);
    });
  }

  async due(limit: number): Promise<ThreadRef[]> {
    await this.#peers.start();
    for (const { ref } of this.#shared.threads.prune()) await this.#feeds.clear(ref);
    const here = await this.#attention.due(limit);
    const due = new Map([...here, ...(await this.#peers.due(limit))].map(thread => [threadName(thread), thread]));
    return [...due.values()].slice(0, limit);
  }

  async inspect(thread: ThreadRef): Promise<ThreadState> {
    await this.#peers.start();
    const owner = await this.#shared.leases.ownerOf(thread);
    return await this.#peers.state(thread, owner);
  }

  async waiting(limit: number): Promise<ThreadState[]> {
    await this.#peers.start();
    const threads = await this.#peers.waiting(limit);
    return await Promise.all(threads.map(thread => this.inspect(thread)));
  }

  async listen(instanceId: string, listener: MailboxListener): Promise<() => Promise<void>> {
    const own = this.#shared.instanceId;
    if (instanceId !== own) throw invalidOption('instanceId', instanceId, `this mailbox's own, ${own}`);
    await this.#peers.start();
    const stop = this.#shared.listeners.add(listener);
    listener.onResync();
    return async () => stop();
  }

  /** Hands what still waits here to a peer; without one it is lost, and said. */
  async close(): Promise<void> {
    this.#shared.listeners.clear();
    await this.#peers.close();
  }

  #requireOwn(claim: LeaseClaim): void {
    if (!isOwn(this.#shared, claim.owner)) throw invalidOption('owner', claim.owner, `${this.#shared.instanceId}/<run>`);
  }
}
