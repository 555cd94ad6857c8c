/** The threads of which this process holds something: waiting signals, output, or the run that is on. */

import { parseOwner, threadName } from '../../contracts/thread.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import type { Grant, MailboxLimits } from '../../contracts/thread-mailbox.ts';
import type { Clock } from '../../core/clock.ts';
import { ThreadInbox } from './inbox.ts';
import { OutputLog } from './output-log.ts';

/** Where the output of a run begins, and who runs. */
export interface CurrentRun {
  readonly owner: string;
  readonly fencingToken: number | undefined;
  readonly ttlMs: number;
  readonly outputFrom: string;
  /** Known once it has taken its signals. */
  agentId: string | undefined;
  abortRequested: boolean;
  /** Its end is being recorded: what the run gave back has been counted already. */
  settling: boolean;
}

export class LocalThread {
  readonly ref: ThreadRef;
  readonly name: string;
  readonly inbox: ThreadInbox;
  readonly log: OutputLog;
  run: CurrentRun | undefined;
  /** A run that was never settled, of an owner that has gone: those who read its output must be told. */
  cutShort: string | undefined;
  /** Monotonic: from when on its lease may have ended, so that somebody must look. */
  lookAtMs = 0;
  /** Monotonic: until when the output is kept. */
  outputUntilMs = 0;

  constructor(ref: ThreadRef, limits: MailboxLimits) {
    this.ref = { resourceId: ref.resourceId, threadId: ref.threadId };
    this.name = threadName(ref);
    this.inbox = new ThreadInbox(limits);
    this.log = new OutputLog(limits.outputMaxChunks);
  }

  begin(grant: Grant, nowMs: number): void {
    const { owner, fencingToken, ttlMs } = grant;
    this.cutShort = undefined;
    this.run = { owner, fencingToken, ttlMs, outputFrom: this.log.last, agentId: undefined, abortRequested: false, settling: false };
    this.lookAtMs = nowMs + ttlMs;
  }

  /** The run was settled, or is given up without that. */
  end(): void {
    if (this.run && !this.run.settling) this.cutShort = parseOwner(this.run.owner).runId;
    this.run = undefined;
    this.lookAtMs = 0;
  }
}

const pruneEveryMs = 60_000;

export class LocalThreads {
  readonly #limits: MailboxLimits;
  readonly #clock: Clock;
  readonly #threads = new Map<string, LocalThread>();
  #prunedAtMs: number;

  constructor(limits: MailboxLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
    this.#prunedAtMs = clock.monotonicMs();
  }

  find(ref: ThreadRef): LocalThread | undefined {
    return this.#threads.get(threadName(ref));
  }

  /** The thread's, made if there is none. */
  at(ref: ThreadRef): LocalThread {
    const name = threadName(ref);
    const known = this.#threads.get(name);
    if (known) return known;
    const thread = new LocalThread(ref, this.#limits);
    this.#threads.set(name, thread);
    return thread;
  }

  /** Those with signals that wait and wake, oldest first. */
  waiting(): LocalThread[] {
    return [...this.#threads.values()]
      .filter(thread => thread.inbox.waking > 0)
      .sort((a, b) => Number.parseInt(a.inbox.oldest ?? '0', 10) - Number.parseInt(b.inbox.oldest ?? '0', 10));
  }

  all(): LocalThread[] {
    return [...this.#threads.values()];
  }

  /**
   * Forgets what nobody needs any more, at most once a minute; answers whose output was dropped. So an idle thread leaves
   * nothing but what the dedupe window and the retention of output ask for.
   */
  prune(): LocalThread[] {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#prunedAtMs < pruneEveryMs) return [];
    this.#prunedAtMs = nowMs;
    const idle = this.all().filter(
      thread =>
        nowMs >= thread.outputUntilMs && nowMs >= thread.lookAtMs && thread.inbox.isForgettable(this.#clock.wallMs()),
    );
    for (const thread of idle) this.#threads.delete(thread.name);
    return idle;
  }
}
