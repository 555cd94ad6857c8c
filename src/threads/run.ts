/**
 * One invocation of an agent on a thread: gives it its signals and those that arrive meanwhile, takes its chunks, and
 * knows in the end what it consumed.
 */

import type { Agent, AgentRun, Arrivals, Chunk } from '../contracts/agent.ts';
import type { Signal } from '../contracts/signal.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type { InboxEntry } from '../contracts/thread-mailbox.ts';
import { errorMessage, isSignalsError, SignalsError } from '../core/errors.ts';
import type { RunEnd } from '../core/outcomes.ts';
import { AsyncQueue } from '../core/queue.ts';
import { unlessAborted } from '../core/waits.ts';
import type { HeldLease } from '../leases/lease-keeper.ts';
import { agentSignal } from './agent-signal.ts';
import type { RunOutput } from './run-output.ts';

/** Chunks after which a reader expects no more of this run. */
const terminalTypes: ReadonlySet<string> = new Set(['finish', 'error', 'abort']);

export interface RunOptions {
  agentId: string;
  agent: Agent;
  runId: string;
  thread: ThreadRef;
  lease: HeldLease;
  output: RunOutput;
  /** What woke the run; at least one. */
  entries: readonly InboxEntry[];
}

export interface RunResult {
  readonly end: RunEnd;
  readonly error?: unknown;
}

export class Run {
  readonly agentId: string;
  readonly runId: string;
  readonly thread: ThreadRef;
  readonly #options: RunOptions;
  readonly #arrivals = new AsyncQueue<InboxEntry>();
  readonly #joined: InboxEntry[] = [];
  readonly #stop = new AbortController();
  #stopReason: 'aborted' | 'drained' | undefined;
  #lastChunkType: string | undefined;
  #saidWhatFailed = false;

  constructor(options: RunOptions) {
    this.#options = options;
    this.agentId = options.agentId;
    this.runId = options.runId;
    this.thread = options.thread;
  }

  /** Signals for the run while it is on. */
  join(entries: readonly InboxEntry[]): void {
    this.#joined.push(...entries);
    for (const entry of entries) this.#arrivals.push(entry);
  }

  /** Asks the agent to stop; the first reason counts. */
  stop(reason: 'aborted' | 'drained'): void {
    this.#stopReason ??= reason;
    this.#stop.abort(new SignalsError('SIG_RUN_ABORTED', `the run was ${reason}`, { details: { reason } }));
  }

  /** What the agent was given and read: it woke the run, or was taken from the arrivals. */
  get consumed(): string[] {
    return [...this.#options.entries, ...this.#arrivals.taken].map(entry => entry.id);
  }

  /** What the agent was given and never read. */
  get unread(): string[] {
    const taken = new Set(this.#arrivals.taken);
    return this.#joined.filter(entry => !taken.has(entry)).map(entry => entry.id);
  }

  /**
   * Runs the agent to its end. Resolves early only when the lease is gone: then nothing that it still does has an effect
   * through us. Never rejects.
   */
  async execute(): Promise<RunResult> {
    const { lease, output } = this.#options;
    const chunks = this.#start()[Symbol.asyncIterator]();
    try {
      lease.assertHeld(); // the process may have stood still since its signals were taken (L1)
      await this.#pump(chunks);
      this.#arrivals.end(); // what comes from here on is for the next run, also if the agent left a reader behind
      await this.#writeTerminal(this.#stopReason ? this.#abortChunk() : this.#chunk('finish', {}));
      await output.flush();
      return { end: this.#stopReason ?? 'finished' };
    } catch (error) {
      this.#arrivals.end();
      if (lease.signal.aborted || isSignalsError(error, 'SIG_LEASE_LOST', 'SIG_LEASE_EXPIRED')) {
        abandon(chunks);
        return { end: 'lease_lost', error };
      }
      return await this.#fail(error);
    }
  }

  async #pump(chunks: AsyncIterator<Chunk>): Promise<void> {
    const { lease, output } = this.#options;
    for (;;) {
      const next = await unlessAborted(lease.signal, chunks.next());
      lease.assertHeld();
      if (next === undefined || next.done) return;
      this.#lastChunkType = next.value.type;
      this.#saidWhatFailed ||= next.value.type === 'error';
      await output.write(next.value);
    }
  }

  /** An agent that throws after it was asked to stop has stopped; one that throws by itself has failed. */
  async #fail(error: unknown): Promise<RunResult> {
    const { output } = this.#options;
    try {
      if (this.#stopReason) await this.#writeTerminal(this.#abortChunk());
      else if (!this.#saidWhatFailed) await this.#options.output.write(this.#errorChunk(error));
      await output.flush();
    } catch (lost) {
      return { end: 'lease_lost', error: lost };
    }
    return this.#stopReason ? { end: this.#stopReason } : { end: 'failed', error };
  }

  /** A run always ends with a chunk that says so: the agent's own, or ours. */
  async #writeTerminal(chunk: Chunk): Promise<void> {
    if (this.#lastChunkType === undefined || !terminalTypes.has(this.#lastChunkType)) await this.#options.output.write(chunk);
  }

  #start(): AsyncIterable<Chunk> {
    const { agent, agentId, runId, thread, lease, entries } = this.#options;
    const fencingToken = lease.grant.fencingToken;
    const runOptions = entries.find(entry => entry.envelope.runOptions !== undefined)?.envelope.runOptions;
    const run: AgentRun = {
      agentId,
      runId,
      thread,
      signals: entries.map(entry => entry.envelope.signal),
      arrivals: signalsOf(this.#arrivals),
      abortSignal: agentSignal(lease, this.#stop.signal),
      attempt: Math.max(...entries.map(entry => entry.attempt)),
      ...(fencingToken === undefined ? {} : { fencingToken }),
      ...(runOptions === undefined ? {} : { options: runOptions }),
    };
    return startAgent(agent, run);
  }

  #abortChunk(): Chunk {
    return this.#chunk('abort', { reason: this.#stopReason });
  }

  #errorChunk(error: unknown): Chunk {
    const code = isSignalsError(error) ? error.code : 'SIG_RUN_FAILED';
    return this.#chunk('error', { error: { code, message: errorMessage(error) } });
  }

  #chunk(type: string, payload: object): Chunk {
    return { type, runId: this.runId, from: 'AGENT', payload };
  }
}

/** An agent that throws before its first chunk fails like one that throws later. */
async function* startAgent(agent: Agent, run: AgentRun): AsyncIterable<Chunk> {
  yield* agent(run);
}

function signalsOf(arrivals: AsyncQueue<InboxEntry>): Arrivals {
  return {
    get size() {
      return arrivals.size;
    },
    drain: () => arrivals.drain().map(signalOf),
    giveBack: signals => arrivals.giveBack(arrivals.taken.filter(entry => signals.includes(signalOf(entry)))),
    // Not a generator: its `return` would wait for the signal that `next` waits for.
    [Symbol.asyncIterator](): AsyncIterator<Signal, undefined> {
      const entries = arrivals[Symbol.asyncIterator]();
      return {
        async next() {
          const { done, value } = await entries.next();
          return done ? { done, value: undefined } : { done: false, value: signalOf(value) };
        },
        async return() {
          await entries.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

function signalOf(entry: InboxEntry): Signal {
  return entry.envelope.signal;
}

/** Tells the agent's iterator that nobody reads on. It may hang or throw: the run is over either way. */
function abandon(chunks: AsyncIterator<Chunk>): void {
  void chunks.return?.().catch(() => {});
}
