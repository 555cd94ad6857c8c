/** Signals at a steady rate, by the real client SDK through the Service, and a record of every one that was accepted or refused. */

import { setTimeout as pause } from 'node:timers/promises';

import { MastraClient } from '@mastra/client-js';

import { resourceId } from '../chaos/names.ts';
import type { Acceptance } from '../chaos/history.ts';
import { worker } from './release.ts';

export interface TrafficOptions {
  readonly url: string;
  readonly threads: readonly string[];
  readonly perSecond: number;
  /** How long an agent works for one. */
  readonly workMs: number;
  /** Of authorized senders. */
  readonly headers?: Record<string, string>;
}

export interface Failure {
  readonly id: string;
  readonly atMs: number;
  readonly error: string;
}

/**
 * Each sends one signal after the other to threads of all, and the same again under its id until it is accepted. Half of them keep their
 * connections, and so their pod for as long as it lets them; the others open one for each request.
 */
const senders = 25;

export class Traffic {
  readonly acceptances: Acceptance[] = [];
  /** Tries that brought no acceptance. */
  readonly failures: Failure[] = [];
  /** Sent, and their fate is not known. */
  readonly pending = new Set<string>();
  readonly #options: TrafficOptions;
  readonly #stopped = new AbortController();
  readonly #sending: Promise<unknown>;

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#sending = Promise.all(Array.from({ length: senders }, (_, n) => this.#run(`sender-${n}`)));
    this.#sending.catch(() => {}); // seen by who stops it
  }

  get sent(): number {
    return this.acceptances.length + this.failures.length;
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#sending;
  }

  async #run(sender: string): Promise<void> {
    const { threads, perSecond, workMs, url } = this.#options;
    const headers = { ...this.#options.headers, ...(Number(sender.at(-1)) % 2 === 0 && { connection: 'close' }) };
    const everyMs = (1000 * senders) / perSecond;
    let due = performance.now();
    for (let order = 1; !this.#stopped.signal.aborted; order++) {
      due += everyMs;
      const thread = threads[Math.floor(Math.random() * threads.length)] ?? '';
      await sendOne(this, { url, headers, thread, sender, order, contents: `work ${workMs}` });
      // A late one is not made up for: that would be a burst.
      due = Math.max(due, performance.now() - everyMs);
      await pause(Math.max(0, due - performance.now()), undefined, { signal: this.#stopped.signal }).catch(() => {}); // stopped: the loop ends
    }
  }
}

interface One {
  readonly url: string;
  readonly headers?: Record<string, string>;
  readonly thread: string;
  readonly sender: string;
  readonly order: number;
  readonly contents: string;
}

/** Sends until it is accepted, the same id each time, and records it in `to`. */
export async function sendOne(
  to: Pick<Traffic, 'acceptances' | 'failures' | 'pending'>, { url, headers, thread, sender, order, contents }: One,
): Promise<void> {
  const agent = new MastraClient({ baseUrl: url, retries: 0, ...(headers && { headers }) }).getAgent(worker);
  const id = `${thread}/${sender}/${order}`;
  const signal = { id, type: 'user' as const, contents };
  to.pending.add(id);
  const fromMs = Date.now();
  for (let tries = 1; ; tries++) {
    try {
      const answer = (await agent.sendSignal({ signal, resourceId, threadId: thread })) as { runId: string; action?: string };
      const { runId, action = '' } = answer;
      to.acceptances.push({ id, thread, sender, order, agent: worker, turn: 'current', action, runId, tries, fromMs, atMs: Date.now() });
      to.pending.delete(id);
      return;
    } catch (error) {
      to.failures.push({ id, atMs: Date.now(), error: describeError(error) });
      await pause(200);
    }
  }
}

function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${describeError(error.cause)}` : error.message;
}
