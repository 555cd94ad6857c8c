/** What this instance does with threads, as its HTTP routes (and any other door) see it. */

import type { ActiveBehavior, Branch, IdleBehavior, Signal, Turn } from '../contracts/signal.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type { AbortOutcome, Delivery, OutputChunk, ThreadState } from '../contracts/thread-mailbox.ts';

/** A signal as its sender gives it: what is missing is filled in on arrival. */
export type NewSignal = Partial<Signal> & Pick<Signal, 'type' | 'contents'>;

export interface SendRequest {
  readonly agentId: string;
  /** The thread, or a run that is on; with both, the signal goes only to that run of that thread. */
  readonly target: { readonly thread?: ThreadRef; readonly runId?: string };
  readonly signal: NewSignal;
  readonly turn: Turn;
  readonly ifActive?: Partial<Branch<ActiveBehavior>>;
  readonly ifIdle?: Partial<Branch<IdleBehavior>>;
  readonly runOptions?: unknown;
}

export interface SendOutcome {
  readonly action: Delivery['action'];
  /** The run that was woken or is on, where one is known. What can't join it runs after it. */
  readonly runId?: string;
  readonly signal: Signal;
  readonly owner?: string;
  readonly fencingToken?: number;
  readonly duplicate: boolean;
}

/** What this instance knows of a thread that it owns; what waits there, the store knows. */
export interface OwnedThread {
  readonly thread: ThreadRef;
  readonly owner: string;
  readonly fencingToken?: number;
  readonly agentId?: string;
  readonly runId?: string;
  /** ISO 8601. */
  readonly runStartedAt?: string;
}

export interface AbortOptions {
  /** Only if this run is still the one that is on. */
  readonly expectedRunId?: string;
  /** What waits behind it is discarded first. Otherwise it runs next. */
  readonly clearPendingSignals?: boolean;
}

export interface ThreadService {
  /** Errors: `SIG_AGENT_UNKNOWN`, `SIG_RUN_UNKNOWN`, `SIG_INBOX_FULL`, `SIG_SIGNAL_TOO_LARGE`, `SIG_STORE_UNAVAILABLE`. */
  send(request: SendRequest): Promise<SendOutcome>;
  /** Resolves when the position to read from is fixed: whatever is put out after that will be read. */
  follow(thread: ThreadRef, signal: AbortSignal, after?: string): Promise<AsyncIterable<OutputChunk>>;
  /** Asks the owner, wherever it is, to stop its run. */
  abort(thread: ThreadRef, options?: AbortOptions): Promise<AbortOutcome>;
  inspect(thread: ThreadRef): Promise<ThreadState>;
  /** Threads that this instance runs now. */
  owned(): OwnedThread[];
  /** Threads with waiting signals, whoever owns them; oldest first. */
  waiting(limit: number): Promise<ThreadState[]>;
}
