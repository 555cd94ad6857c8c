/**
 * A stand-in for the runtime behind the HTTP routes: it keeps what it was asked and plays back what a test gives it. It
 * runs no agents and knows no leases; the tests of the whole use the real one.
 */

import { EventEmitter, once } from 'node:events';

import type { Chunk } from '../../../src/contracts/agent.ts';
import type { ThreadRef } from '../../../src/contracts/thread.ts';
import { threadName } from '../../../src/contracts/thread.ts';
import type { AbortOutcome, OutputChunk, ThreadState } from '../../../src/contracts/thread-mailbox.ts';
import type { AbortOptions, OwnedThread, SendOutcome, SendRequest, ThreadService } from '../../../src/threads/thread-service.ts';

export class StandInThreadService implements ThreadService {
  readonly sent: SendRequest[] = [];
  readonly aborts: { thread: ThreadRef; expectedRunId: string | undefined; clearPendingSignals?: boolean }[] = [];
  readonly follows: { thread: ThreadRef; after: string | undefined }[] = [];
  ownedThreads: (OwnedThread & ThreadState)[] = [];
  waitingThreads: ThreadState[] = [];
  /** Replaces the answer to `send`. */
  onSend: ((request: SendRequest) => Promise<SendOutcome> | SendOutcome) | undefined;
  /** Thrown by everything, when set. */
  failure: unknown;
  openFollows = 0;
  /** Chunks that were taken by readers. */
  handedOut = 0;
  readonly #output = new Map<string, OutputChunk[]>();
  readonly #grew = new EventEmitter().setMaxListeners(0);

  async send(request: SendRequest): Promise<SendOutcome> {
    this.#fail();
    this.sent.push(request);
    if (this.onSend) return await this.onSend(request);
    const signal = { ...request.signal, id: request.signal.id ?? 'made-up-id', createdAt: '2026-01-02T03:04:05.678Z' };
    const runId = request.target.runId ?? 'run-1';
    return { action: 'wake', runId, signal, owner: `pod-1/${runId}`, fencingToken: 7, duplicate: false };
  }

  put(thread: ThreadRef, ...chunks: Chunk[]): void {
    const output = this.#outputOf(thread);
    for (const chunk of chunks) output.push({ id: `${output.length + 1}-0`, chunk });
    this.#grew.emit('grew');
  }

  async follow(thread: ThreadRef, signal: AbortSignal, after?: string): Promise<AsyncIterable<OutputChunk>> {
    this.#fail();
    this.follows.push({ thread, after });
    return this.#read(thread, signal, after);
  }

  async *#read(thread: ThreadRef, signal: AbortSignal, after: string | undefined): AsyncIterable<OutputChunk> {
    this.openFollows++;
    const output = this.#outputOf(thread);
    try {
      for (let next = after === undefined ? 0 : Number.parseInt(after, 10); !signal.aborted; ) {
        const chunk = output[next];
        if (chunk) {
          next++;
          this.handedOut++;
          yield chunk;
        } else await once(this.#grew, 'grew', { signal }).catch(() => {});
        this.#fail();
      }
    } finally {
      this.openFollows--;
    }
  }

  /** Ends every reader with `failure`. */
  break(failure: unknown): void {
    this.failure = failure;
    this.#grew.emit('grew');
  }

  abort(thread: ThreadRef, { expectedRunId, clearPendingSignals }: AbortOptions = {}): Promise<AbortOutcome> {
    this.#fail();
    this.aborts.push({ thread, expectedRunId, ...(clearPendingSignals === undefined ? {} : { clearPendingSignals }) });
    return Promise.resolve({ aborted: true, runId: 'run-1', cancelledSignalIds: [] });
  }

  inspect(thread: ThreadRef): Promise<ThreadState> {
    this.#fail();
    const known = this.ownedThreads.find(owned => threadName(owned.thread) === threadName(thread));
    return Promise.resolve({ thread, owner: known?.owner, fencingToken: known?.fencingToken, waiting: known?.waiting ?? 0 });
  }

  owned(): OwnedThread[] {
    return this.ownedThreads;
  }

  waiting(limit: number): Promise<ThreadState[]> {
    this.#fail();
    return Promise.resolve(this.waitingThreads.slice(0, limit));
  }

  #outputOf(thread: ThreadRef): OutputChunk[] {
    const name = threadName(thread);
    const output = this.#output.get(name) ?? [];
    this.#output.set(name, output);
    return output;
  }

  #fail(): void {
    if (this.failure !== undefined) throw this.failure;
  }
}
