/** What mailboxes of one backend ask of each other, from both sides. */

import type { PubSub } from '../../contracts/pubsub.ts';
import { parseOwner, threadName } from '../../contracts/thread.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import type { AbortOutcome, AbortRequest, DeliverRequest, Delivery, ThreadState } from '../../contracts/thread-mailbox.ts';
import type { Clock } from '../../core/clock.ts';
import { errorMessage } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { InboxContents, SeenSignal } from './inbox.ts';
import type { LocalThread, LocalThreads } from './local-threads.ts';
import type { LocalOperations } from './operations.ts';
import { endHere, readHere } from './output-reader.ts';
import { PeerLink } from './peer-link.ts';
import { comparePositions } from './positions.ts';
import type { ThreadLeases } from './thread-leases.ts';
import type { Turns } from './turns.ts';

export interface PeerAnswersOptions {
  pubsub: PubSub;
  instanceId: string;
  clock: Clock;
  logger: Logger;
  replyLimitMs: number;
  threads: LocalThreads;
  leases: ThreadLeases;
  turns: Turns;
  operations: LocalOperations;
  /** `undefined`: this instance is not the owner. */
  deliver: (request: DeliverRequest) => Promise<Delivery | undefined>;
  abort: (thread: ThreadRef, request: AbortRequest) => Promise<AbortOutcome | undefined>;
  due: (limit: number) => Promise<ThreadRef[]>;
  onArrival: (thread: ThreadRef) => void;
  onOrphan: (thread: ThreadRef) => void;
}

/** What a process holds of a thread that another one acquired. Its output stays where it is and is read from there. */
interface Collected {
  readonly thread: ThreadRef;
  readonly inbox: InboxContents;
  readonly lastOutput: string;
  readonly cutShort?: string;
}

export type HandOver = 'taken' | 'refused' | 'unanswered';

interface SeenHere {
  readonly seen?: SeenSignal;
  readonly last: string;
}

interface WaitingHere {
  readonly thread: ThreadRef;
  readonly oldest: string;
}

interface StateHere {
  readonly waiting: number;
  readonly fencingToken?: number;
}

/** The body of a request. Which fields there are follows from what is asked. */
interface Question {
  readonly thread: ThreadRef;
  readonly request: DeliverRequest;
  readonly abort: AbortRequest;
  readonly owner?: string;
  readonly signalId: string;
  readonly inbox: InboxContents;
  readonly after: string;
  readonly limit: number;
  readonly runId: string;
  readonly ids?: readonly string[];
}

export class PeerAnswers {
  readonly link: PeerLink;
  readonly #own: PeerAnswersOptions;
  readonly #answers: Readonly<Record<string, (question: Question) => Promise<unknown>>> = {
    deliver: ({ request }) => this.#own.deliver(request),
    abort: ({ thread, abort }) => this.#own.abort(thread, abort),
    spare: async ({ thread, owner = '' }) => this.#own.threads.find(thread)?.inbox.account(owner),
    due: ({ limit }) => this.#own.due(limit),
    seen: async ({ thread, signalId }) => this.#seenHere(thread, signalId),
    collect: ({ thread, owner }) => this.#handOver(thread, owner),
    push: ({ thread, inbox }) => this.#takeOver(thread, inbox, true),
    adopt: ({ thread, inbox }) => this.#takeOver(thread, inbox, false),
    output: async ({ thread, after }) => readHere(this.#own.threads.find(thread), after),
    end: async ({ thread }) => endHere(this.#own.threads.find(thread), await this.#own.leases.ownerOf(thread)),
    state: async ({ thread, owner }) => this.#stateHere(thread, owner),
    waiting: async ({ limit }) => this.#waitingHere(limit),
    findRun: ({ runId }) => this.#own.operations.findRun(runId),
    cancel: ({ thread, ids }) => this.#own.operations.cancel(thread, ids),
    deadThreads: async () => this.#own.operations.deadThreads(),
    deadLetters: async ({ thread }) => this.#own.operations.deadLetters(thread),
    replay: ({ thread, ids }) => this.#own.operations.replay(thread, ids),
  };

  constructor(options: PeerAnswersOptions) {
    this.#own = options;
    this.link = new PeerLink({
      ...options,
      answer: async (what, body) => await this.#answers[what]?.(body as Question),
      onNews: body => options.onOrphan((body as { orphan: ThreadRef }).orphan),
      onStray: (what, body) => {
        if (what === 'collect' && body) this.#keep(body as Collected);
      },
    });
  }

  start(): Promise<void> {
    return this.link.start();
  }

  get none(): boolean {
    return this.link.peers.length === 0;
  }

  async deliver(instanceId: string, request: DeliverRequest): Promise<Delivery | undefined> {
    // Not the claim: what is delivered there must not be taken by us.
    const { claim: _, ...forwarded } = request;
    return (await this.link.ask(instanceId, 'deliver', { request: forwarded })) as Delivery | undefined;
  }

  async abort(instanceId: string, thread: ThreadRef, abort: AbortRequest): Promise<AbortOutcome | undefined> {
    return (await this.link.ask(instanceId, 'abort', { thread, abort })) as AbortOutcome | undefined;
  }

  async spare(thread: ThreadRef, owner: string): Promise<void> {
    await this.link.askAll('spare', { thread, owner });
  }

  /** What a peer made of a signal id. What is accepted here next comes after all that the peers have accepted. */
  async seen(local: LocalThread, signalId: string): Promise<SeenSignal | undefined> {
    const answers = (await this.link.askAll('seen', { thread: local.ref, signalId })) as (SeenHere | undefined)[];
    for (const answer of answers) if (answer) local.inbox.goOnAfter(answer.last);
    return answers.find(answer => answer?.seen !== undefined)?.seen;
  }

  /** Brings here what the peers hold of a thread that `owner`, one of ours, has just acquired. */
  async collect(local: LocalThread, owner: string): Promise<void> {
    const answers = await this.link.askAll('collect', { thread: local.ref, owner });
    for (const collected of answers as (Collected | undefined)[]) {
      if (!collected) continue;
      local.inbox.merge(collected.inbox);
      local.log.startAfter(collected.lastOutput);
      local.cutShort ??= collected.cutShort;
    }
  }

  /** Sends what waits here to the thread's owner. What it does not confirm stays. Answers `refused` if it is not the owner. */
  push(instanceId: string, local: LocalThread): Promise<HandOver> {
    return this.#send(instanceId, 'push', local);
  }

  async state(thread: ThreadRef, owner: string | undefined): Promise<ThreadState> {
    const answers = (await this.link.askAll('state', { thread, owner })) as StateHere[];
    const states = [this.#stateHere(thread, owner), ...answers];
    const fencingToken = states.find(state => state.fencingToken !== undefined)?.fencingToken;
    return {
      thread,
      waiting: states.reduce((sum, state) => sum + state.waiting, 0),
      ...(owner !== undefined && { owner }),
      ...(fencingToken !== undefined && { fencingToken }),
    };
  }

  async due(limit: number): Promise<ThreadRef[]> {
    return ((await this.link.askAll('due', { limit })) as ThreadRef[][]).flat();
  }

  async waiting(limit: number): Promise<ThreadRef[]> {
    const answers = (await this.link.askAll('waiting', { limit })) as WaitingHere[][];
    const all = [this.#waitingHere(limit), ...answers].flat().sort((a, b) => comparePositions(a.oldest, b.oldest));
    return [...new Map(all.map(({ thread }) => [threadName(thread), thread])).values()].slice(0, limit);
  }

  async announceOrphan(thread: ThreadRef): Promise<void> {
    await this.link.tell({ orphan: thread }).catch((error: unknown) => {
      // A hint: the sweep finds the thread.
      this.#own.logger.warn('an orphan was not announced', { error: errorMessage(error) });
    });
  }

  async close(): Promise<void> {
    for (const local of this.#own.threads.all()) {
      if (local.inbox.size > 0) await this.#own.turns.run(local.name, () => this.#leaveToPeer(local));
    }
    await this.link.close();
  }

  async #leaveToPeer(local: LocalThread): Promise<void> {
    for (const peer of this.link.peers) if ((await this.#send(peer, 'adopt', local)) === 'taken') return;
    this.#own.logger.warn('signals are lost with this process: it has no peer', { waiting: local.inbox.size });
  }

  async #send(instanceId: string, how: 'push' | 'adopt', local: LocalThread): Promise<HandOver> {
    const inbox = local.inbox.contents();
    try {
      if ((await this.link.ask(instanceId, how, { thread: local.ref, inbox })) !== true) return 'refused';
    } catch (error) {
      this.#own.logger.warn('signals could not be handed to a peer', { how, error: errorMessage(error) });
      return 'unanswered';
    }
    local.inbox.forget(inbox);
    return 'taken';
  }

  /** Only to whoever holds the lease now: a request that was on its way for long must not take a thread apart. */
  async #handOver(thread: ThreadRef, owner: string | undefined): Promise<Collected | undefined> {
    const local = this.#own.threads.find(thread);
    if (!local || owner === undefined || (await this.#own.leases.ownerOf(thread)) !== owner) return undefined;
    local.end();
    const { cutShort } = local;
    local.cutShort = undefined;
    return { thread: local.ref, inbox: local.inbox.empty(), lastOutput: local.log.last, ...(cutShort !== undefined && { cutShort }) };
  }

  async #takeOver(thread: ThreadRef, inbox: InboxContents, asOwner: boolean): Promise<boolean> {
    return await this.#own.turns.run(threadName(thread), async () => {
      const owner = await this.#own.leases.ownerOf(thread);
      const isOwner = owner !== undefined && parseOwner(owner).instanceId === this.#own.instanceId;
      if (asOwner && !isOwner) return false;
      const local = this.#own.threads.at(thread);
      local.inbox.append(inbox, this.#own.clock.wallMs());
      if (isOwner) this.#own.onArrival(local.ref);
      else if (local.inbox.waking > 0) this.#own.onOrphan(local.ref);
      return true;
    });
  }

  /** What came too late, or did not get away: it waits here, and the sweep sees to it. */
  #keep({ thread, inbox, lastOutput }: Collected): void {
    const local = this.#own.threads.at(thread);
    local.inbox.append(inbox, this.#own.clock.wallMs());
    local.log.startAfter(lastOutput);
    local.lookAtMs = 0;
  }

  #seenHere(thread: ThreadRef, signalId: string): SeenHere | undefined {
    const inbox = this.#own.threads.find(thread)?.inbox;
    const seen = inbox?.seen(signalId, this.#own.clock.wallMs());
    return inbox && { last: inbox.last, ...(seen && { seen }) };
  }

  #stateHere(thread: ThreadRef, owner: string | undefined): StateHere {
    const local = this.#own.threads.find(thread);
    const token = local?.run?.owner === owner ? local?.run?.fencingToken : undefined;
    return { waiting: local?.inbox.size ?? 0, ...(token !== undefined && { fencingToken: token }) };
  }

  #waitingHere(limit: number): WaitingHere[] {
    return this.#own.threads
      .waiting()
      .slice(0, limit)
      .map(({ ref, inbox }) => ({ thread: ref, oldest: inbox.oldest ?? '' }));
  }
}
