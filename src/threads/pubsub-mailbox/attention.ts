/** S3: where signals wait, somebody must look. Here their owner, or everybody where there is none, is told. */

import type { ThreadRef } from '../../contracts/thread.ts';
import type { LocalThread } from './local-threads.ts';
import type { PeerAnswers } from './peer-answers.ts';
import { instanceOf, isOwn } from './shared.ts';
import type { Shared } from './shared.ts';

/** How long an owner that was seen is taken for alive. */
const ownerSeenForMs = 1000;

export class Attention {
  readonly #shared: Shared;
  readonly #peers: PeerAnswers;

  constructor(shared: Shared, peers: PeerAnswers) {
    this.#shared = shared;
    this.#peers = peers;
  }

  /** Something waits here that the owner, or everybody where there is none, must know of. */
  async seeTo(local: LocalThread): Promise<void> {
    const owner = await this.#shared.leases.ownerOf(local.ref);
    if (owner !== undefined) await this.remind(local, owner);
    else await this.noteIfWaiting(local);
  }

  /** Signals wait here and the thread has an owner: that owner must know of them, and have them. */
  async remind(local: LocalThread, owner: string): Promise<void> {
    const { clock, listeners } = this.#shared;
    local.lookAtMs = clock.monotonicMs() + ownerSeenForMs;
    if (local.inbox.size === 0) return;
    if (isOwn(this.#shared, owner)) listeners.hint(listener => listener.onArrival(local.ref));
    else if ((await this.#peers.push(instanceOf(owner), local)) === 'refused') await this.noteIfWaiting(local);
  }

  /** The thread has no owner as far as is known: somebody must look if a signal that wakes is waiting. */
  async noteIfWaiting(local: LocalThread): Promise<void> {
    local.lookAtMs = 0;
    if (local.inbox.waking === 0) return;
    this.#shared.listeners.hint(listener => listener.onOrphan(local.ref));
    await this.#peers.announceOrphan(local.ref);
  }

  /** Threads with signals here that somebody must take. The owners of the others are reminded. */
  async due(limit: number): Promise<ThreadRef[]> {
    const { threads, clock, leases, turns } = this.#shared;
    const due: ThreadRef[] = [];
    for (const local of threads.waiting()) {
      if (due.length >= limit) break;
      if (clock.monotonicMs() < local.lookAtMs) continue;
      const owner = await leases.ownerOf(local.ref);
      if (owner === undefined) due.push(local.ref);
      else await turns.run(local.name, () => this.remind(local, owner));
    }
    return due;
  }
}
