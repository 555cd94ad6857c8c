/** What is done to waiting and dead signals from outside of any run: by senders who change their mind, and by operators. */

import type { Envelope } from './signal.ts';
import type { ThreadRef } from './thread.ts';

export interface DeadLetter {
  /** Position among the thread's dead letters. */
  readonly id: string;
  readonly envelope: Envelope;
  /** How often it had been given to a run. */
  readonly attempts: number;
  /** When it was given up; ISO 8601. */
  readonly at: string;
}

/** Threads whose signals wait and that nobody runs: more than a few, or for long, means that runs are short of room. */
export interface Unattended {
  readonly threads: number;
  /** How long the first of them has been without an owner, ms; absent when there is none. */
  readonly oldestMs?: number;
}

export interface MailboxOperations {
  unattended(): Promise<Unattended>;
  /** The thread of a run that is on, on whichever instance. */
  findRun(runId: string): Promise<ThreadRef | undefined>;
  /** Discards waiting signals: those with these ids, or all. What a run was given stays its own. Answers which ids went. */
  cancel(thread: ThreadRef, signalIds?: readonly string[]): Promise<string[]>;
  /** Threads with dead letters, those with the newest first. */
  threadsWithDeadLetters(limit: number): Promise<ThreadRef[]>;
  /** Oldest first. */
  deadLetters(thread: ThreadRef, limit: number): Promise<DeadLetter[]>;
  /** Puts dead letters back at the end of the inbox, with their deliveries counted from the start. Answers how many. */
  replay(thread: ThreadRef, ids?: readonly string[]): Promise<number>;
}
