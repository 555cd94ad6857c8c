/** What runs a thread. */

import type { Signal } from './signal.ts';
import type { ThreadRef } from './thread.ts';

/** One piece of output. Shapes pass through untouched; `type` is what readers tell them apart by. */
export interface Chunk {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** Signals that arrive while the run is on. What was neither read nor drained stays for the next run. */
export interface Arrivals extends AsyncIterable<Signal> {
  /** How many are there now, unread. */
  readonly size: number;
  /** What is there now, without waiting. */
  drain(): Signal[];
  /** Signals of these that were read and could not be used: they count as unread. */
  giveBack(signals: readonly Signal[]): void;
}

export interface AgentRun {
  readonly agentId: string;
  readonly runId: string;
  readonly thread: ThreadRef;
  /** The signals that woke this run, in order. */
  readonly signals: readonly Signal[];
  readonly arrivals: Arrivals;
  /**
   * Aborts on a lost lease, an abort request, or the deadline of a drain. Stop at once: another may be about to start. Look at
   * `aborted` of this very signal right before each effect: that reads the clock, while its event may come late after a stall.
   */
  readonly abortSignal: AbortSignal;
  /** Send it along with every write to a system that can check it. Absent on backends that have none. */
  readonly fencingToken?: number;
  /** 1, or more when the signals were already given to a run that did not settle them. */
  readonly attempt: number;
  /** What the sender of the first signal said about runs (`ifIdle.streamOptions`). */
  readonly options?: unknown;
}

export type Agent = (run: AgentRun) => AsyncIterable<Chunk>;

export interface AgentDefinition {
  readonly id: string;
  readonly name: string;
  readonly description?: string;
  readonly run: Agent;
}

export interface AgentLookup {
  /** Throws `SIG_AGENT_UNKNOWN`, naming the agents that there are. */
  get(agentId: string): AgentDefinition;
}
