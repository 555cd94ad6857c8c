/** The threads that this instance owns now, and how many more it may own. */

import { newRunId, ownerOf, parseOwner, threadName } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type { Grant, LeaseClaim } from '../contracts/thread-mailbox.ts';
import { settledWithin } from '../core/waits.ts';
import { ThreadActor } from './thread-actor.ts';
import type { ThreadActorContext } from './thread-actor.ts';

/** The store may be away, and an exit must not wait for it. */
export const spareLimitMs = 1000;

export class OwnedThreads {
  readonly #context: ThreadActorContext;
  readonly #maxRuns: number;
  readonly #actors = new Map<string, ThreadActor>();
  #accepting = true;

  constructor(context: ThreadActorContext, maxRuns: number) {
    this.#context = context;
    this.#maxRuns = maxRuns;
  }

  /** What to ask for when the thread may be taken; `undefined` while this instance drains or is full. */
  claim(thread: ThreadRef): LeaseClaim | undefined {
    if (!this.#accepting || this.room === 0) return undefined;
    const { instanceId, settings } = this.#context;
    return { owner: ownerOf(instanceId, newRunId(thread)), ttlMs: settings().ttlMs };
  }

  get room(): number {
    return this.#accepting ? Math.max(0, this.#maxRuns - this.#actors.size) : 0;
  }

  get size(): number {
    return this.#actors.size;
  }

  all(): ThreadActor[] {
    return [...this.#actors.values()];
  }

  get(thread: ThreadRef): ThreadActor | undefined {
    return this.#actors.get(threadName(thread));
  }

  byRun(runId: string): ThreadActor | undefined {
    return this.all().find(actor => actor.runId === runId);
  }

  /** Whether a lease's owner is this very instance. */
  isOurs(owner: string | undefined): boolean {
    return owner !== undefined && parseOwner(owner).instanceId === this.#context.instanceId;
  }

  /** Takes the thread on. An actor of an earlier grant that has not noticed its loss yet goes on to its own end. */
  start(thread: ThreadRef, grant: Grant): ThreadActor {
    const name = threadName(thread);
    if (grant.takenOver) this.#context.observer.takenOver(thread);
    const actor = new ThreadActor(this.#context, thread, grant);
    this.#actors.set(name, actor);
    if (!this.#accepting) actor.drain();
    void actor.done.then(() => {
      if (this.#actors.get(name) === actor) this.#actors.delete(name);
    });
    return actor;
  }

  /**
   * Takes nothing more, lets runs finish until `timeoutMs`, then stops those that are left and waits `graceMs` for them.
   * Answers how many did not stop even then: their leases run out by themselves (L7).
   */
  async drain(timeoutMs: number, graceMs: number): Promise<{ stopped: number; abandoned: number }> {
    this.#accepting = false;
    for (const actor of this.all()) actor.drain();
    const { clock } = this.#context;
    if (await settledWithin(clock, timeoutMs, this.#allDone())) return { stopped: 0, abandoned: 0 };
    const left = this.all();
    for (const actor of left) actor.stopForDrain();
    await settledWithin(clock, graceMs, this.#allDone());
    // They end with the process, not by what they were given.
    await settledWithin(clock, spareLimitMs, Promise.all(this.all().map(actor => actor.spare())));
    return { stopped: left.length, abandoned: this.size };
  }

  async #allDone(): Promise<void> {
    while (this.size > 0) {
      await Promise.all(this.all().map(actor => actor.done));
      await Promise.resolve(); // lets the actors that are done leave the map
    }
  }
}
