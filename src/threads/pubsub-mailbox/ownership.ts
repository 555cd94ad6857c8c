/** A thread from its owner's side: claimed, run, settled; and what only its owner may do. */

import type { Chunk } from '../../contracts/agent.ts';
import { cutShortChunk } from '../../contracts/notices.ts';
import { threadName } from '../../contracts/thread.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import type {
  AbortOutcome, AbortRequest, Appended, Grant, LeaseClaim, Settlement, SettleRequest, Taken, TakeRequest,
} from '../../contracts/thread-mailbox.ts';
import { errorMessage, SignalsError } from '../../core/errors.ts';
import type { Attention } from './attention.ts';
import type { CurrentRun, LocalThread } from './local-threads.ts';
import type { OutputFeeds } from './output-feeds.ts';
import type { PeerAnswers } from './peer-answers.ts';
import { beginning } from './positions.ts';
import { isOwn, runOf } from './shared.ts';
import type { Shared } from './shared.ts';

export const notAborted: AbortOutcome = { aborted: false, cancelledSignalIds: [] };

export class Ownership {
  readonly #shared: Shared;
  readonly #peers: PeerAnswers;
  readonly #feeds: OutputFeeds;
  readonly #attention: Attention;

  constructor(shared: Shared, peers: PeerAnswers, feeds: OutputFeeds, attention: Attention) {
    this.#shared = shared;
    this.#peers = peers;
    this.#feeds = feeds;
    this.#attention = attention;
  }

  async claim(thread: ThreadRef, claim: LeaseClaim): Promise<Grant | undefined> {
    const { leases, threads, turns } = this.#shared;
    return await turns.run(threadName(thread), async () => {
      const local = threads.at(thread);
      const owner = await leases.ownerOf(thread);
      if (owner !== undefined && owner !== claim.owner) {
        await this.#attention.remind(local, owner);
        return undefined;
      }
      if (local.inbox.waking === 0 && this.#peers.none) return undefined;
      const grant = await leases.acquire(thread, claim);
      const { run } = local;
      const isRetry = run?.owner === claim.owner && run.fencingToken === grant?.fencingToken;
      if (!grant || isRetry) return grant; // another's, or given before and its reply lost
      await this.#peers.collect(local, claim.owner);
      if (local.inbox.waking === 0) {
        await this.giveUp(local, claim.owner);
        return undefined;
      }
      const died = await this.begin(local, grant);
      // What a peer left behind it left for a reason that is not known here.
      return died || !this.#peers.none ? { ...grant, takenOver: true } : grant;
    });
  }

  /** The lease is ours and what the peers had is here: a run may start. Answers whether one was on that was never settled. */
  async begin(local: LocalThread, grant: Grant): Promise<boolean> {
    const died = await this.endDeadRun(local);
    local.begin(grant, this.#shared.clock.monotonicMs());
    return died;
  }

  /** A run that was never settled: those who read its output are told. Answers whether there was one. */
  async endDeadRun(local: LocalThread): Promise<boolean> {
    local.end();
    const { cutShort } = local;
    local.cutShort = undefined;
    if (cutShort !== undefined && local.log.last !== beginning) await this.#put(local, [cutShortChunk(cutShort)]);
    return cutShort !== undefined;
  }

  /** A lease that was taken and leads to no run. What waits is for somebody else to claim. */
  async giveUp(local: LocalThread, owner: string): Promise<void> {
    await this.#shared.leases.release(local.ref, owner);
    local.end();
    await this.#attention.noteIfWaiting(local);
  }

  async take({ thread, grant, join }: TakeRequest): Promise<Taken> {
    return await this.#asOwner(thread, grant, async (local, run) => {
      const taken = local.inbox.take(grant.owner, join, this.#shared.clock.wallMs());
      run.agentId ??= taken.entries[0]?.envelope.agentId;
      return { ...taken, abortRequested: run.abortRequested };
    });
  }

  async append(thread: ThreadRef, grant: Grant, chunks: readonly Chunk[]): Promise<Appended> {
    return await this.#asOwner(thread, grant, async (local, run) => {
      await this.#put(local, chunks);
      return { abortRequested: run.abortRequested };
    });
  }

  /** `undefined` when this instance is not the owner. */
  async abort(thread: ThreadRef, { expectedRunId, clearWaiting = false }: AbortRequest): Promise<AbortOutcome | undefined> {
    const { leases, listeners, threads, turns } = this.#shared;
    return await turns.run(threadName(thread), async () => {
      const owner = await leases.ownerOf(thread);
      const local = threads.at(thread);
      const { run } = local;
      if (owner === undefined || !isOwn(this.#shared, owner)) return undefined;
      const runId = runOf(owner);
      if (run?.owner !== owner || (expectedRunId !== undefined && runId !== expectedRunId)) return notAborted;
      run.abortRequested = true;
      const cancelledSignalIds = clearWaiting ? local.inbox.cancel(undefined, owner) : [];
      listeners.hint(listener => listener.onAbort({ ...thread }, runId));
      return { aborted: true, runId, cancelledSignalIds };
    });
  }

  async settle(request: SettleRequest): Promise<Settlement> {
    const { leases, threads, turns } = this.#shared;
    const { thread, grant, consumed, next } = request;
    return await turns.run(threadName(thread), async () => {
      const local = threads.at(thread);
      const owner = await leases.ownerOf(thread);
      const { run } = local;
      if (run?.owner !== grant.owner || run.fencingToken !== grant.fencingToken || owner !== grant.owner) {
        return await this.#settledBefore(local, owner, request);
      }
      const waiting = local.inbox.wakingWithout(consumed);
      if (waiting > 0 && next) {
        const nextGrant = await leases.transfer(thread, grant.owner, next);
        if (!nextGrant) throw lost(grant);
        record(local, request);
        await this.begin(local, nextGrant);
        return { grant: nextGrant, waiting };
      }
      record(local, request);
      await leases.release(thread, grant.owner);
      local.end();
      await this.#attention.noteIfWaiting(local);
      return { waiting };
    });
  }

  /** A retry after a lost reply finds its work done, or done but for the entries. Anyone else has lost the lease. */
  async #settledBefore(local: LocalThread, owner: string | undefined, request: SettleRequest): Promise<Settlement> {
    const { thread, grant, consumed, next } = request;
    if (next && owner === next.owner) {
      const nextGrant = await this.#shared.leases.acquire(thread, next);
      if (!nextGrant) throw lost(grant);
      if (local.run?.owner !== next.owner) {
        record(local, request);
        await this.begin(local, nextGrant);
      }
      return { grant: nextGrant, waiting: local.inbox.waking };
    }
    if (owner !== undefined || consumed.length === 0 || local.inbox.hasAny(consumed)) {
      if (local.run?.owner !== grant.owner || !local.run.settling) throw lost(grant);
    }
    if (local.run?.owner === grant.owner) local.end();
    return { waiting: local.inbox.waking };
  }

  /** What waited here may have gone to the next owner meanwhile. */
  async spare(thread: ThreadRef, { owner }: Grant): Promise<void> {
    this.#shared.threads.find(thread)?.inbox.account(owner);
    await this.#peers.spare(thread, owner);
  }

  async #put(local: LocalThread, chunks: readonly Chunk[]): Promise<void> {
    const { clock, limits, logger } = this.#shared;
    const batch = local.log.append(chunks, clock.wallMs());
    local.outputUntilMs = clock.monotonicMs() + limits.outputRetentionMs;
    await this.#feeds.publish(local.ref, batch).catch((error: unknown) => {
      // The log has it: those who follow see the gap, or look after a while.
      logger.warn('output was not published', { error: errorMessage(error) });
    });
  }

  async #asOwner<T>(thread: ThreadRef, grant: Grant, step: (local: LocalThread, run: CurrentRun) => Promise<T>): Promise<T> {
    const { clock, leases, threads, turns } = this.#shared;
    return await turns.run(threadName(thread), async () => {
      const local = threads.at(thread);
      const owner = await leases.ownerOf(thread);
      const { run } = local;
      if (owner !== grant.owner || run?.owner !== owner || run.fencingToken !== grant.fencingToken) throw lost(grant);
      local.lookAtMs = clock.monotonicMs() + run.ttlMs;
      return await step(local, run);
    });
  }
}

/** Once, also if the settle is repeated. */
function record(local: LocalThread, { consumed, returned = [] }: SettleRequest): void {
  local.inbox.remove(consumed);
  if (!local.run || local.run.settling) return;
  local.run.settling = true;
  local.inbox.account(local.run.owner, returned);
}

function lost(grant: Grant): SignalsError {
  return new SignalsError('SIG_LEASE_LOST', `${grant.owner} no longer owns ${grant.key}`, {
    details: { key: grant.key, owner: grant.owner, fencingToken: grant.fencingToken },
  });
}
