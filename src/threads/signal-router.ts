/**
 * The way of a signal: accept it durably, then see that its owner hears of it, or become the owner. Also the other things
 * that an instance does with threads, whoever owns them.
 */

import { randomUUID } from 'node:crypto';

import type { AgentLookup } from '../contracts/agent.ts';
import type { MailboxOperations } from '../contracts/mailbox-operations.ts';
import type { RunObserver } from '../contracts/observer.ts';
import type { Signal } from '../contracts/signal.ts';
import { parseOwner } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type {
  AbortOutcome, Delivery, MailboxListener, OutputChunk, ThreadMailbox, ThreadState,
} from '../contracts/thread-mailbox.ts';
import type { Clock } from '../core/clock.ts';
import { errorMessage, isSignalsError, SignalsError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { OwnedThreads } from './owned-threads.ts';
import type { Sweeper } from './sweeper.ts';
import type { AbortOptions, NewSignal, OwnedThread, SendOutcome, SendRequest, ThreadService } from './thread-service.ts';

export interface SignalRouterOptions {
  mailbox: ThreadMailbox;
  owned: OwnedThreads;
  sweeper: Sweeper;
  operations: MailboxOperations;
  agents: AgentLookup;
  clock: Clock;
  observer: RunObserver;
  logger: Logger;
}

export class SignalRouter implements ThreadService, MailboxListener {
  readonly #options: SignalRouterOptions;

  constructor(options: SignalRouterOptions) {
    this.#options = options;
  }

  async send(request: SendRequest): Promise<SendOutcome> {
    const { observer } = this.#options;
    try {
      const outcome = await this.#send(request);
      observer.routed(outcome.duplicate ? 'duplicate' : outcome.action);
      return outcome;
    } catch (error) {
      // A store that is away has refused nothing.
      observer.routed(isSignalsError(error) && !isSignalsError(error, 'SIG_INTERNAL', 'SIG_STORE_UNAVAILABLE') ? 'refused' : 'error');
      throw error;
    }
  }

  async #send({ agentId, target, turn, runOptions, ...request }: SendRequest): Promise<SendOutcome> {
    const { mailbox, owned, agents, observer } = this.#options;
    agents.get(agentId);
    const thread = await this.#threadOf(target);
    const signal = this.#completed(request.signal);
    const claim = owned.claim(thread);
    const trace = observer.carrier();
    const delivery = await mailbox.deliver({
      thread,
      envelope: { agentId, signal, turn, ...(runOptions === undefined ? {} : { runOptions }), ...(trace ? { trace } : {}) },
      ifActive: { behavior: 'deliver', ...request.ifActive },
      ifIdle: { behavior: 'wake', ...request.ifIdle },
      ...(claim ? { claim } : {}),
      ...(target.runId === undefined ? {} : { expectedRunId: target.runId }),
    });
    this.#follow(thread, delivery);
    return outcomeOf(delivery, signal);
  }

  /** Starts what was granted; tells our own actor at once what the store's hint will tell it again. */
  #follow(thread: ThreadRef, delivery: Delivery): void {
    const { owned } = this.#options;
    if (delivery.grant) owned.start(thread, delivery.grant);
    else if (owned.isOurs(delivery.owner)) owned.get(thread)?.notice();
  }

  /** A run may be on at any instance: what is not known here, the store knows. */
  async #threadOf({ thread, runId }: SendRequest['target']): Promise<ThreadRef> {
    if (thread) return thread;
    const found = runId === undefined ? undefined : (this.#options.owned.byRun(runId)?.thread ?? (await this.#options.operations.findRun(runId)));
    if (found) return found;
    throw new SignalsError('SIG_RUN_UNKNOWN', `run ${runId ?? '(none given)'} is not on`);
  }

  #completed(signal: NewSignal): Signal {
    return {
      ...signal,
      id: signal.id ?? randomUUID(),
      createdAt: signal.createdAt ?? new Date(this.#options.clock.wallMs()).toISOString(),
    };
  }

  follow(thread: ThreadRef, signal: AbortSignal, after?: string): Promise<AsyncIterable<OutputChunk>> {
    return this.#options.mailbox.follow({ thread, signal, ...(after === undefined ? {} : { after }) });
  }

  async abort(thread: ThreadRef, { expectedRunId, clearPendingSignals = false }: AbortOptions = {}): Promise<AbortOutcome> {
    return await this.#options.mailbox.abort(thread, { clearWaiting: clearPendingSignals, ...(expectedRunId === undefined ? {} : { expectedRunId }) });
  }

  inspect(thread: ThreadRef): Promise<ThreadState> {
    return this.#options.mailbox.inspect(thread);
  }

  waiting(limit: number): Promise<ThreadState[]> {
    return this.#options.mailbox.waiting(limit);
  }

  owned(): OwnedThread[] {
    return this.#options.owned.all().map(({ thread, grant, runId, agentId, runStartedAtMs }) => ({
      thread,
      owner: grant.owner,
      runId,
      ...(grant.fencingToken === undefined ? {} : { fencingToken: grant.fencingToken }),
      ...(agentId === undefined ? {} : { agentId }),
      ...(runStartedAtMs === undefined ? {} : { runStartedAt: new Date(runStartedAtMs).toISOString() }),
    }));
  }

  onArrival(thread: ThreadRef): void {
    this.#options.owned.get(thread)?.notice();
  }

  onAbort(thread: ThreadRef, runId: string): void {
    this.#options.owned.get(thread)?.abort(runId);
  }

  onOrphan(thread: ThreadRef): void {
    this.#options.sweeper.take(thread).catch((error: unknown) => {
      // The index still has the thread: the next sweep, here or elsewhere, finds it.
      this.#options.logger.debug('taking an orphan failed', { error: errorMessage(error) });
    });
  }

  onResync(): void {
    for (const actor of this.#options.owned.all()) actor.notice();
  }
}

function outcomeOf(delivery: Delivery, signal: Signal): SendOutcome {
  const { action, owner, duplicate, grant } = delivery;
  return {
    action,
    signal,
    duplicate,
    ...(owner ? { owner, runId: parseOwner(owner).runId } : {}),
    ...(grant?.fencingToken === undefined ? {} : { fencingToken: grant.fencingToken }),
  };
}
