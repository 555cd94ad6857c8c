/**
 * One thread that this instance owns, from the grant of its lease until it was handed on, released or lost. Runs follow each
 * other: at the end of one the mailbox says, in one step, whether there is another.
 */

import type { AgentDefinition, AgentLookup } from '../contracts/agent.ts';
import type { RunFacts, RunObserver } from '../contracts/observer.ts';
import { newRunId, ownerOf, parseOwner } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type { Grant, InboxEntry, LeaseClaim, Settlement, Taken, ThreadMailbox } from '../contracts/thread-mailbox.ts';
import { backoffMs } from '../core/backoff.ts';
import type { Clock } from '../core/clock.ts';
import { errorMessage, isSignalsError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { sleep } from '../core/waits.ts';
import type { HeldLease, LeaseKeeper } from '../leases/lease-keeper.ts';
import type { LeaseSettings } from '../leases/settings.ts';
import { ArrivalFeed } from './arrival-feed.ts';
import { endRun } from './end-run.ts';
import { Run } from './run.ts';
import type { RunResult } from './run.ts';
import { RunOutput } from './run-output.ts';
import { whileHeld } from './while-held.ts';

/** With what the mailbox itself tries, for about a minute. */
const spareTries = 8;
/** Renewals that got no answer before a lease ended. A process that stood still has asked once at most. */
const unansweredOfAStore = 2;

export interface ThreadActorContext {
  readonly instanceId: string;
  readonly mailbox: ThreadMailbox;
  readonly keeper: LeaseKeeper;
  readonly agents: AgentLookup;
  readonly settings: () => LeaseSettings;
  readonly clock: Clock;
  readonly observer: RunObserver;
  readonly logger: Logger;
}

export class ThreadActor {
  readonly thread: ThreadRef;
  /** Resolves when this instance has nothing more to do with the thread. Never rejects. */
  readonly done: Promise<void>;
  readonly #context: ThreadActorContext;
  #grant: Grant;
  #run: Run | undefined;
  #runStartedAtMs: number | undefined;
  #draining = false;
  #stopAsked: 'aborted' | 'drained' | undefined;
  #feed: ArrivalFeed | undefined;
  /** A hint came before the run was there to be fed. */
  #noticed = false;

  constructor(context: ThreadActorContext, thread: ThreadRef, grant: Grant) {
    this.#context = context;
    this.thread = thread;
    this.#grant = grant;
    this.done = this.#live();
  }

  get grant(): Grant {
    return this.#grant;
  }

  get runId(): string {
    return parseOwner(this.#grant.owner).runId;
  }

  get agentId(): string | undefined {
    return this.#run?.agentId;
  }

  /** Milliseconds since the Unix epoch. */
  get runStartedAtMs(): number | undefined {
    return this.#runStartedAtMs;
  }

  /** The inbox may hold something new. */
  notice(): void {
    if (this.#feed) this.#feed.notice();
    else this.#noticed = true;
  }

  /** Stops the run with this id; answers whether it was the one that is on. */
  abort(runId: string): boolean {
    if (runId !== this.runId) return false;
    this.#stop('aborted');
    return true;
  }

  /** From now on the thread is given up at the end of the run that is on. */
  drain(): void {
    this.#draining = true;
  }

  /** The drain can't wait any longer. What the run was given stays in the mailbox. */
  stopForDrain(): void {
    this.#draining = true;
    this.#stop('drained');
  }

  /**
   * Whatever comes of the run, its signals did not end it: that they were given must not make dead letters of them. Tried for a
   * while, since a lease is mostly lost to a store that is away. Never rejects.
   */
  async spare(): Promise<void> {
    const { mailbox, clock, logger } = this.#context;
    const grant = this.#grant;
    for (let attempt = 1; attempt <= spareTries; attempt++) {
      try {
        await mailbox.spare(this.thread, grant);
        return;
      } catch (error) {
        logger.debug('a run that was cut short could not say so', { key: grant.key, attempt, error: errorMessage(error) });
      }
      await sleep(clock, backoffMs(attempt, 500, 8000));
    }
  }

  #stop(reason: 'aborted' | 'drained'): void {
    if (this.#run) this.#run.stop(reason);
    else this.#stopAsked = reason;
  }

  async #live(): Promise<void> {
    let grant: Grant | undefined = this.#grant;
    while (grant) {
      this.#grant = grant;
      grant = await this.#turn(grant);
    }
  }

  /** One run under one grant. Answers the grant of the run after it. Never throws: whatever goes wrong ends the ownership. */
  async #turn(grant: Grant): Promise<Grant | undefined> {
    const { mailbox, clock, logger } = this.#context;
    const lease = await this.#hold(grant);
    if (!lease) return undefined;
    try {
      this.#noticed = false; // whatever is there now, this will see
      const taken = await whileHeld(lease, clock, () => mailbox.take({ thread: this.thread, grant }));
      if (taken.entries.length === 0) return (await this.#settle(lease, [], [])).grant;
      if (taken.abortRequested) this.#stopAsked ??= 'aborted';
      if (taken.more) this.#noticed = true;
      return await this.#execute(lease, taken);
    } catch (error) {
      lease.drop(isSignalsError(error, 'SIG_LEASE_EXPIRED') ? 'expired' : 'lost');
      if (storeIsToBlame(error, lease)) void this.spare();
      logger.warn('thread ownership ended', { key: grant.key, owner: grant.owner, error: errorMessage(error) });
      return undefined;
    }
  }

  /** A lease whose answer came past its own deadline is worth nothing to us: it is given back, so that others need not wait. */
  async #hold(grant: Grant): Promise<HeldLease | undefined> {
    const { keeper, mailbox, logger } = this.#context;
    try {
      return keeper.hold(grant);
    } catch (error) {
      logger.warn('a lease came too late and is given back', { key: grant.key, owner: grant.owner, error: errorMessage(error) });
      // Should that fail as well, the lease runs out by itself.
      await mailbox.settle({ thread: this.thread, grant, consumed: [] }).catch(() => {});
      return undefined;
    }
  }

  async #execute(lease: HeldLease, taken: Taken): Promise<Grant | undefined> {
    const { entries } = taken;
    const agentId = entries[0]?.envelope.agentId ?? '';
    const agent = this.#agent(agentId, lease);
    if (!agent) return undefined;
    const { mailbox, clock } = this.#context;
    const output = new RunOutput({ mailbox, thread: this.thread, lease, clock, onAbortRequested: () => this.#run?.stop('aborted') });
    const run = new Run({ agentId, agent: agent.run, runId: this.runId, thread: this.thread, lease, output, entries });
    const { end, error } = await this.#observed(run, lease, taken);
    if (end === 'lease_lost') throw error;
    // What a drain cut short was not done: its signals wait for the next owner.
    const consumed = end === 'drained' ? [] : run.consumed;
    return (await this.#settle(lease, consumed, run.unread)).grant;
  }

  /** A pod of another version may know the agent: the thread is left to it, not answered with a failure. */
  #agent(agentId: string, lease: HeldLease): AgentDefinition | undefined {
    try {
      return this.#context.agents.get(agentId);
    } catch (error) {
      this.#context.logger.error('no such agent here, the thread is left to others', {
        key: lease.grant.key,
        agentId,
        error: errorMessage(error),
      });
      lease.drop('abandoned');
      return undefined;
    }
  }

  async #observed(run: Run, lease: HeldLease, { entries, cursor }: Taken): Promise<RunResult> {
    const { observer, mailbox, clock, logger } = this.#context;
    const scope = observer.runStarted(factsOf(run, lease, entries, clock));
    this.#run = run;
    this.#runStartedAtMs = clock.wallMs();
    if (this.#stopAsked) run.stop(this.#stopAsked);
    this.#stopAsked = undefined;
    const feed = new ArrivalFeed({ mailbox, clock, logger, thread: this.thread, lease, run, cursor });
    this.#feed = feed;
    if (this.#noticed) feed.notice();
    const result = await scope.within(() => run.execute());
    this.#run = undefined;
    this.#runStartedAtMs = undefined;
    this.#feed = undefined;
    await feed.stop();
    scope.end(result.end, result.error);
    return result;
  }

  async #settle(lease: HeldLease, consumed: readonly string[], returned: readonly string[]): Promise<Settlement> {
    const next = this.#draining ? {} : { next: this.#nextClaim() };
    return await endRun(this.#context, lease, { thread: this.thread, grant: lease.grant, consumed, returned, ...next });
  }

  #nextClaim(): LeaseClaim {
    const { instanceId, settings } = this.#context;
    return { owner: ownerOf(instanceId, newRunId(this.thread)), ttlMs: settings().ttlMs };
  }
}

/**
 * A run whose process stood still until its lease was over may have been stopped by its signals; one that went on asking while
 * the store said nothing was not, nor one whose lease the store gave away.
 */
function storeIsToBlame(error: unknown, lease: HeldLease): boolean {
  return isSignalsError(error, 'SIG_LEASE_LOST') || (isSignalsError(error, 'SIG_LEASE_EXPIRED') && lease.unanswered >= unansweredOfAStore);
}

function factsOf(run: Run, lease: HeldLease, entries: readonly InboxEntry[], clock: Clock): RunFacts {
  const [first, ...others] = entries.map(entry => entry.envelope);
  const sentAtMs = Date.parse(first?.signal.createdAt ?? '');
  return {
    agentId: run.agentId,
    runId: run.runId,
    thread: run.thread,
    attempt: Math.max(...entries.map(entry => entry.attempt)),
    signalCount: entries.length,
    otherTraces: others.flatMap(({ trace }) => (trace ? [trace] : [])),
    ...(Number.isNaN(sentAtMs) ? {} : { waitedMs: Math.max(0, clock.wallMs() - sentAtMs) }),
    ...(lease.grant.fencingToken === undefined ? {} : { fencingToken: lease.grant.fencingToken }),
    ...(first?.trace ? { trace: first.trace } : {}),
  };
}
