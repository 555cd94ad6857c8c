/** Cancelling, dead letters and the search for a run, on what this process and its peers hold. */

import type { DeadLetter, MailboxOperations, Unattended } from '../../contracts/mailbox-operations.ts';
import { ownerOf, parseOwner, threadName } from '../../contracts/thread.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import type { Clock } from '../../core/clock.ts';
import type { LocalThread, LocalThreads } from './local-threads.ts';
import type { PeerLink } from './peer-link.ts';
import { comparePositions } from './positions.ts';
import type { ThreadLeases } from './thread-leases.ts';
import type { Turns } from './turns.ts';

export interface LocalOperationsOptions {
  threads: LocalThreads;
  leases: ThreadLeases;
  turns: Turns;
  clock: Clock;
  /** Signals wait here that nobody was told of. */
  onWaiting: (local: LocalThread) => Promise<void>;
  /** The thread has neither an owner nor signals that wake any more. */
  onDeserted: (local: LocalThread) => Promise<void>;
}

export interface DeadThread {
  readonly thread: ThreadRef;
  /** Position of its newest dead letter. */
  readonly newest: string;
}

/** This process's part. */
export class LocalOperations {
  readonly #own: LocalOperationsOptions;

  constructor(options: LocalOperationsOptions) {
    this.#own = options;
  }

  async findRun(runId: string): Promise<ThreadRef | undefined> {
    const found = this.#own.threads.all().find(({ run }) => run && parseOwner(run.owner).runId === runId);
    if (!found?.run) return undefined;
    const { instanceId } = parseOwner(found.run.owner);
    return (await this.#own.leases.ownerOf(found.ref)) === ownerOf(instanceId, runId) ? found.ref : undefined;
  }

  async cancel(thread: ThreadRef, signalIds: readonly string[] | undefined): Promise<string[]> {
    return await this.#own.turns.run(threadName(thread), async () => {
      const local = this.#own.threads.find(thread);
      if (!local) return [];
      const owner = await this.#own.leases.ownerOf(thread);
      const cancelled = local.inbox.cancel(signalIds, owner);
      if (owner === undefined && local.inbox.waking === 0) await this.#own.onDeserted(local);
      return cancelled;
    });
  }

  unattended(): Unattended {
    const nowMs = this.#own.clock.monotonicMs();
    const since = this.#own.threads
      .all()
      .filter(({ inbox, lookAtMs }) => inbox.waking > 0 && lookAtMs <= nowMs)
      .map(({ inbox }) => Number.parseInt(inbox.oldest ?? '', 10));
    if (since.length === 0) return { threads: 0 };
    return { threads: since.length, oldestMs: Math.max(0, this.#own.clock.wallMs() - Math.min(...since)) };
  }

  deadThreads(): DeadThread[] {
    return this.#own.threads.all().flatMap(({ ref, inbox }) => {
      const newest = inbox.deadLetters.at(-1)?.id;
      return newest === undefined ? [] : [{ thread: ref, newest }];
    });
  }

  deadLetters(thread: ThreadRef): DeadLetter[] {
    return this.#own.threads.find(thread)?.inbox.deadLetters ?? [];
  }

  async replay(thread: ThreadRef, ids: readonly string[] | undefined): Promise<number> {
    return await this.#own.turns.run(threadName(thread), async () => {
      const local = this.#own.threads.find(thread);
      const count = local?.inbox.replay(ids, this.#own.clock.wallMs()) ?? 0;
      if (local && count > 0) await this.#own.onWaiting(local);
      return count;
    });
  }
}

/** Everybody's. Peers that give no answer are left out, with a warning in the log. */
export class PubSubMailboxOperations implements MailboxOperations {
  readonly #local: LocalOperations;
  readonly #link: PeerLink;

  constructor(local: LocalOperations, link: PeerLink) {
    this.#local = local;
    this.#link = link;
  }

  /** Those that this process holds: its peers count their own. */
  unattended(): Promise<Unattended> {
    return Promise.resolve(this.#local.unattended());
  }

  async findRun(runId: string): Promise<ThreadRef | undefined> {
    const here = await this.#local.findRun(runId);
    if (here) return here;
    const answers = (await this.#ask('findRun', { runId })) as (ThreadRef | undefined)[];
    return answers.find(thread => thread !== undefined);
  }

  async cancel(thread: ThreadRef, signalIds?: readonly string[]): Promise<string[]> {
    if (signalIds?.length === 0) return [];
    const here = await this.#local.cancel(thread, signalIds);
    return [...here, ...((await this.#ask('cancel', { thread, ids: signalIds })) as string[][]).flat()];
  }

  async threadsWithDeadLetters(limit: number): Promise<ThreadRef[]> {
    const all = [...this.#local.deadThreads(), ...((await this.#ask('deadThreads', {})) as DeadThread[][]).flat()];
    all.sort((a, b) => comparePositions(b.newest, a.newest));
    return [...new Map(all.map(({ thread }) => [threadName(thread), thread])).values()].slice(0, limit);
  }

  async deadLetters(thread: ThreadRef, limit: number): Promise<DeadLetter[]> {
    const elsewhere = (await this.#ask('deadLetters', { thread })) as DeadLetter[][];
    return [...this.#local.deadLetters(thread), ...elsewhere.flat()]
      .sort((a, b) => comparePositions(a.id, b.id))
      .slice(0, limit);
  }

  async replay(thread: ThreadRef, ids?: readonly string[]): Promise<number> {
    if (ids?.length === 0) return 0;
    const here = await this.#local.replay(thread, ids);
    return ((await this.#ask('replay', { thread, ids })) as number[]).reduce((sum, count) => sum + count, here);
  }

  async #ask(what: string, body: unknown): Promise<unknown[]> {
    await this.#link.start();
    return await this.#link.askAll(what, body);
  }
}
