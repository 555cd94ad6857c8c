/**
 * The durable queue of a thread's signals and the stream of what its runs put out. The port that `threads` works
 * against; one adapter on Redis (every method one atomic step) and one on any PubSub with leases.
 */

import type { Instant } from '../core/clock.ts';
import type { Chunk } from './agent.ts';
import type { ActiveBehavior, Branch, Envelope, IdleBehavior } from './signal.ts';
import type { ThreadRef } from './thread.ts';

/** What an instance asks for when it would run the thread itself. */
export interface LeaseClaim {
  /** `<instance>/<run>` */
  readonly owner: string;
  readonly ttlMs: number;
}

/**
 * A lease that was given to us. If a run before it was never settled, its owner is gone: where the store can, it puts an
 * `error` chunk with `SIG_LEASE_LOST` and that run's id on the output in the same step, so that readers don't wait for more of it.
 */
export interface Grant {
  readonly key: string;
  readonly owner: string;
  readonly fencingToken?: number;
  readonly ttlMs: number;
  /** Taken before the request was sent: the deadline counts from here (L1). */
  readonly askedAt: Instant;
  /**
   * For how long signals had been waiting without an owner until now, by the store's clock; 0 when the owner before handed the
   * thread over. Absent where nothing waited, and where the store does not know.
   */
  readonly unownedMs?: number;
  /** The owner before had a run on and never settled it: it died, was cut off or came too late. Absent when it let go in order. */
  readonly takenOver?: boolean;
}

export interface DeliverRequest {
  readonly thread: ThreadRef;
  readonly envelope: Envelope;
  readonly ifActive: Branch<ActiveBehavior>;
  readonly ifIdle: Branch<IdleBehavior>;
  /** Absent when this instance must not take threads (draining, full): a signal that wakes then waits for a peer. */
  readonly claim?: LeaseClaim;
  /** Deliver only into this run; otherwise refuse with `SIG_RUN_UNKNOWN`. */
  readonly expectedRunId?: string;
}

export interface Delivery {
  /** `blocked`: it was meant for a run (`expectedRunId`) that is another agent's. It is not kept, and its id is not remembered. */
  readonly action: 'wake' | 'deliver' | 'persist' | 'discard' | 'blocked';
  /** The same signal id was accepted before; `action` and `owner` are those of then. */
  readonly duplicate: boolean;
  /** Who holds the thread after this step, if anybody; of a duplicate, after the step that accepted it. */
  readonly owner?: string;
  /** Present when this step gave the thread to us. */
  readonly grant?: Grant;
}

export interface InboxEntry {
  /** Grows in the order of acceptance. */
  readonly id: string;
  readonly envelope: Envelope;
  /** A `persist` signal does not wake a run by itself. */
  readonly waking: boolean;
  /** How often it has been given to a run and read, this time included; counted by the store. */
  readonly attempt: number;
}

/**
 * Which of the waiting entries a run gets. Only those count as one more delivery.
 *
 * A run that starts (`join` absent) is led by the first waiting entry that wakes, and runs that entry's agent. It gets the
 * leader and, in order, every entry for that agent that is not a turn of its own (`turn: 'current'`). A run that is on
 * (`join`) gets those after its cursor. So signals for one agent keep their order, queued turns keep theirs, and a message
 * never waits behind turns that were queued while a run is on.
 */
export interface TakeRequest {
  readonly thread: ThreadRef;
  readonly grant: Grant;
  readonly join?: { readonly agentId: string; readonly cursor: string };
}

export interface Taken {
  readonly entries: readonly InboxEntry[];
  /** How far the inbox was read; what comes later is new. */
  readonly cursor: string;
  /** The inbox was not read to its end: there may be more for this run. */
  readonly more?: boolean;
  /** Somebody asked to abort this run. */
  readonly abortRequested: boolean;
  /** Entries that too many runs may have died of, and that went to the dead letters in this step. */
  readonly deadLettered?: number;
}

export interface SettleRequest {
  readonly thread: ThreadRef;
  readonly grant: Grant;
  readonly consumed: readonly string[];
  /** Entries given to the run that its agent never read: they wait for the next run, and that delivery does not count. */
  readonly returned?: readonly string[];
  /** Who takes the thread on if more is waiting. Absent: it is released, or offered. */
  readonly next?: LeaseClaim;
  /**
   * Without `next`, if more is waiting: keep the lease for this long and let a peer's `claim` take it over, so that the thread
   * is never without an owner. Settle once more, with nothing consumed, to end the offer: `SIG_LEASE_LOST` then means that a
   * peer has it. A store that can't do this releases at once.
   */
  readonly offerMs?: number;
}

export interface Settlement {
  /** The follow-up run's lease: something was waiting and the key went from one owner to the next. */
  readonly grant?: Grant;
  /** The lease is still ours and can be had. */
  readonly offered?: boolean;
  /** Signals that wait and wake; with no grant, a peer takes them. */
  readonly waiting: number;
}

export interface Appended {
  /** Somebody asked to abort this run: said here as well, since the hint may have been lost. */
  readonly abortRequested: boolean;
}

export interface OutputChunk {
  /** Position in the thread's output; a reader that comes back says the last one that it saw. */
  readonly id: string;
  readonly chunk: Chunk;
}

export interface FollowRequest {
  readonly thread: ThreadRef;
  /** After this position; absent: from the start of the run that is on, or from now. */
  readonly after?: string;
  readonly signal: AbortSignal;
}

export interface AbortRequest {
  /** Only if this run is still the one that is on. */
  readonly expectedRunId?: string;
  /** Discard what waits behind the run, in the same step. What the run was given stays its own. */
  readonly clearWaiting?: boolean;
}

export interface AbortOutcome {
  /** The run that was on has been asked to stop. If none was, nothing was discarded either. */
  readonly aborted: boolean;
  readonly runId?: string;
  /** Ids of the signals that were discarded. What a first try took whose reply was lost is not among them. */
  readonly cancelledSignalIds: readonly string[];
}

/** What the store tells an instance. A hint may be lost; that costs time, never a signal. */
export interface MailboxListener {
  /** A thread that this instance owns has something new. */
  onArrival(thread: ThreadRef): void;
  onAbort(thread: ThreadRef, runId: string): void;
  /** A thread with waiting signals has no owner. */
  onOrphan(thread: ThreadRef): void;
  /** Hints may have been lost: look at every owned thread again. */
  onResync(): void;
}

export interface ThreadState {
  readonly thread: ThreadRef;
  readonly owner?: string;
  readonly fencingToken?: number;
  /** Milliseconds until the lease ends, by the store's clock. */
  readonly leaseRemainingMs?: number;
  readonly waiting: number;
}

export interface ThreadMailbox {
  /** Append the signal; if the thread is idle and the signal wakes, take the lease for `claim`. */
  deliver(request: DeliverRequest): Promise<Delivery>;
  /** Take a thread that waits without an owner, or is offered by it; `undefined` when there is nothing to take. */
  claim(thread: ThreadRef, claim: LeaseClaim): Promise<Grant | undefined>;
  /** The entries for this run (see `TakeRequest`), each counted once more. Throws `SIG_LEASE_LOST` to anyone but the owner. */
  take(request: TakeRequest): Promise<Taken>;
  /** End a run: remove what it consumed, then hand on or release the lease. Throws `SIG_LEASE_LOST` to a stale owner. */
  settle(request: SettleRequest): Promise<Settlement>;
  /**
   * The run under this grant ended through no fault of the signals that it was given: they count as given, but not towards the
   * dead letters. A settle says that as well; this is for a run whose lease is gone. Anybody's grant is accepted, also twice.
   */
  spare(thread: ThreadRef, grant: Grant): Promise<void>;
  /**
   * Put chunks on the output, fenced: throws `SIG_LEASE_LOST` to a stale owner (L6). After another failure the same chunks
   * may be given again; they are not put there twice. One call per grant at a time.
   */
  append(thread: ThreadRef, grant: Grant, chunks: readonly Chunk[]): Promise<Appended>;
  /**
   * Resolves when the position to read from is fixed: whatever is put out after that will be read. A reader that was away or
   * slow for longer than output is kept, or whose output the store has lost, gets a chunk of type `signals-missed` in place of what
   * it missed, and at once: `{ after, until }` is what it had seen, and where it goes on.
   */
  follow(request: FollowRequest): Promise<AsyncIterable<OutputChunk>>;
  /** Ask the owner, wherever it is, to stop its run. */
  abort(thread: ThreadRef, request?: AbortRequest): Promise<AbortOutcome>;
  /** Threads that somebody must look at now: waiting, and as far as is known without an owner. At most `limit`. */
  due(limit: number): Promise<ThreadRef[]>;
  inspect(thread: ThreadRef): Promise<ThreadState>;
  /** Threads with waiting signals, oldest first. */
  waiting(limit: number): Promise<ThreadState[]>;
  /** Resolves when hints flow. Answers how to stop them. */
  listen(instanceId: string, listener: MailboxListener): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

/** A backend that brings a mailbox of its own; the runtime prefers it over what it builds from PubSub and leases. */
export interface MailboxProvider {
  getThreadMailbox(): ThreadMailbox;
}

export function isMailboxProvider(value: unknown): value is MailboxProvider {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { getThreadMailbox?: unknown }).getThreadMailbox === 'function'
  );
}

/** What a mailbox holds and accepts, per thread. Set once at start. */
export interface MailboxLimits {
  /** Waiting signals; one more is refused with `SIG_INBOX_FULL`. An inbox is never trimmed. */
  readonly maxEntries: number;
  /** Serialized size of all waiting signals together, bytes; more is refused with `SIG_INBOX_FULL`. */
  readonly maxBytes: number;
  /** Serialized size of one signal, bytes; a larger one is refused with `SIG_SIGNAL_TOO_LARGE`. */
  readonly signalMaxBytes: number;
  /** For how long a signal id is remembered. */
  readonly dedupeWindowMs: number;
  /** Output kept for readers that come back, in chunks (about) ... */
  readonly outputMaxChunks: number;
  /** ... and for how long after the last one. */
  readonly outputRetentionMs: number;
  /**
   * A signal that was given to this many runs of which nothing was heard again goes to the dead letters. A run that was drained,
   * or that lost its lease to a store that was away, says so, and does not count.
   */
  readonly maxDeliveryAttempts: number;
}
