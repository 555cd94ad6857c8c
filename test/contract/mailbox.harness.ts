/** What the contract of the thread mailbox is tested with: instances that share one backend, and short words for long requests. */

import { randomUUID } from 'node:crypto';

import type { Chunk } from '../../src/contracts/agent.ts';
import type { LeaseProvider } from '../../src/contracts/lease-provider.ts';
import type { MailboxOperations } from '../../src/contracts/mailbox-operations.ts';
import { ownerOf, threadLeaseKey, threadName } from '../../src/contracts/thread.ts';
import type { ThreadRef } from '../../src/contracts/thread.ts';
import type {
  DeliverRequest,
  Delivery,
  Grant,
  LeaseClaim,
  MailboxLimits,
  MailboxListener,
  OutputChunk,
  Taken,
  ThreadMailbox,
} from '../../src/contracts/thread-mailbox.ts';
import { until } from '../support/until.ts';

export interface Backend {
  readonly instances: readonly {
    readonly id: string;
    readonly mailbox: ThreadMailbox;
    readonly operations: MailboxOperations;
  }[];
  /** Those that the mailboxes use. */
  readonly leases: LeaseProvider;
  close(): Promise<void>;
}

export type MakeBackend = (instanceIds: readonly string[], limits: MailboxLimits) => Promise<Backend>;

export const limits: MailboxLimits = {
  maxEntries: 50,
  maxBytes: 20_000,
  signalMaxBytes: 4000,
  dedupeWindowMs: 600_000,
  outputMaxChunks: 1000,
  outputRetentionMs: 600_000,
  maxDeliveryAttempts: 3,
};

/** Long enough for any step of a test. */
export const longMs = 60_000;
/** A lease that a test waits to see end. */
export const shortMs = 300;

export class Instance {
  readonly id: string;
  readonly mailbox: ThreadMailbox;
  readonly operations: MailboxOperations;
  readonly heard: { arrivals: string[]; aborts: string[]; orphans: string[]; resyncs: number } = {
    arrivals: [], aborts: [], orphans: [], resyncs: 0,
  };
  stopListening: () => Promise<void> = () => Promise.resolve();

  constructor({ id, mailbox, operations }: Backend['instances'][number]) {
    this.id = id;
    this.mailbox = mailbox;
    this.operations = operations;
  }

  async listen(): Promise<void> {
    const listener: MailboxListener = {
      onArrival: thread => void this.heard.arrivals.push(thread.threadId),
      onAbort: (thread, runId) => void this.heard.aborts.push(`${thread.threadId} ${runId}`),
      onOrphan: thread => void this.heard.orphans.push(thread.threadId),
      onResync: () => void this.heard.resyncs++,
    };
    this.stopListening = await this.mailbox.listen(this.id, listener);
  }

  claim(runId: string = randomUUID(), ttlMs = longMs): LeaseClaim {
    return { owner: ownerOf(this.id, runId), ttlMs };
  }

  send(thread: ThreadRef, id: string, options: SendOptions = {}): Promise<Delivery> {
    const claim = options.claim === undefined ? this.claim() : options.claim;
    const request: DeliverRequest = {
      thread,
      envelope: {
        agentId: options.agentId ?? 'agent',
        signal: { id, type: 'user', contents: options.contents ?? id, createdAt: '2026-01-01T00:00:00.000Z', ...options.signal },
        turn: options.turn ?? 'current',
      },
      ifActive: options.ifActive ?? { behavior: 'deliver' },
      ifIdle: options.ifIdle ?? { behavior: 'wake' },
      ...(claim && { claim }),
      ...(options.expectedRunId !== undefined && { expectedRunId: options.expectedRunId }),
    };
    return this.mailbox.deliver(request);
  }

  /** Wakes an idle thread; fails the test if it was not idle. */
  async wake(thread: ThreadRef, id: string, options: SendOptions = {}): Promise<Grant> {
    const delivery = await this.send(thread, id, options);
    if (!delivery.grant) throw new Error(`${id} woke nothing: ${JSON.stringify(delivery)}`);
    return delivery.grant;
  }

  take(thread: ThreadRef, grant: Grant, join?: { agentId: string; cursor: string }): Promise<Taken> {
    return this.mailbox.take({ thread, grant, ...(join && { join }) });
  }
}

export interface SendOptions {
  agentId?: string;
  contents?: unknown;
  signal?: Record<string, unknown>;
  turn?: 'current' | 'next';
  ifActive?: DeliverRequest['ifActive'];
  ifIdle?: DeliverRequest['ifIdle'];
  /** `null`: must not take the thread. Absent: a new run of the instance. */
  claim?: LeaseClaim | null;
  expectedRunId?: string;
}

export function newThread(): ThreadRef {
  return { resourceId: 'resource {p1}:/ü', threadId: `thread-${randomUUID()}` };
}

export function signalIds(taken: Taken): string[] {
  return taken.entries.map(entry => entry.envelope.signal.id);
}

export function entryIds(taken: Taken): string[] {
  return taken.entries.map(entry => entry.id);
}

export function attempts(taken: Taken): number[] {
  return taken.entries.map(entry => entry.attempt);
}

export function text(...words: string[]): Chunk[] {
  return words.map(word => ({ type: 'text-delta', text: word }));
}

export function words(chunks: readonly OutputChunk[]): unknown[] {
  return chunks.map(({ chunk }) => chunk['text']);
}

/** Two instances of one backend and a thread of their own: what a test begins with. */
export interface Stage {
  readonly a: Instance;
  readonly b: Instance;
  readonly thread: ThreadRef;
  readonly leases: LeaseProvider;
  readonly owner: () => Promise<string | undefined>;
  readonly isDue: (at: Instance) => Promise<boolean>;
  /** The owner dies without a word, and its lease ends; `by` takes the thread over. */
  readonly diesAndIsTakenOver: (grant: Grant, by: Instance) => Promise<Grant>;
  /** `b` takes the thread over whose owner `a` had it for a short time. */
  readonly takenOver: (...signals: string[]) => Promise<{ stale: Grant; grant: Grant }>;
}

export function newStage([a, b]: readonly Instance[], leases: LeaseProvider): Stage {
  if (!a || !b) throw new Error('two instances are needed');
  const thread = newThread();
  return {
    a, b, thread, leases,
    owner: () => leases.getLeaseOwner(threadLeaseKey(thread)),
    isDue: async at => (await at.mailbox.due(1000)).some(ref => threadName(ref) === threadName(thread)),
    async diesAndIsTakenOver(grant, by) {
      await leases.releaseLease(threadLeaseKey(thread), grant.owner);
      const next = await by.mailbox.claim(thread, by.claim());
      if (!next) throw new Error('the thread could not be taken over');
      return next;
    },
    async takenOver(...signals) {
      const stale = await a.wake(thread, signals[0] ?? 's', { claim: a.claim('short', shortMs) });
      for (const id of signals.slice(1)) await a.send(thread, id);
      await a.take(thread, stale);
      await ranOut(leases, thread);
      const grant = await b.mailbox.claim(thread, b.claim());
      if (!grant) throw new Error('the thread could not be taken over');
      return { stale, grant };
    },
  };
}

export async function ranOut(leases: LeaseProvider, thread: ThreadRef): Promise<void> {
  await until('the lease ran out', async () => (await leases.getLeaseOwner(threadLeaseKey(thread))) === undefined);
}

/** Reads output in the background. */
export class Follower {
  readonly chunks: OutputChunk[] = [];
  readonly #stop = new AbortController();
  #done: Promise<void> = Promise.resolve();

  static async start(mailbox: ThreadMailbox, thread: ThreadRef, after?: string): Promise<Follower> {
    const follower = new Follower();
    const { signal } = follower.#stop;
    const output = await mailbox.follow({ thread, signal, ...(after !== undefined && { after }) });
    follower.#done = follower.#read(output);
    return follower;
  }

  async has(count: number): Promise<OutputChunk[]> {
    await until(`${count} chunks were read`, () => this.chunks.length >= count);
    return this.chunks;
  }

  /** Resolves when the reader has ended, which abort makes it do. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }

  async #read(output: AsyncIterable<OutputChunk>): Promise<void> {
    for await (const chunk of output) this.chunks.push(chunk);
  }
}
