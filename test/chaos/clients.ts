/** Senders: one signal after the other, each under an id of its own, to any pod, until one says that it is accepted. */

import { setTimeout as pause } from 'node:timers/promises';

import type { Pod } from './fleet.ts';
import type { Acceptance } from './history.ts';
import { agentIds, resourceId } from './names.ts';
import type { Random } from './random.ts';
import { ask } from './request.ts';

/** Of all signals: with the default options one to each quiet thread every seven seconds or so. */
const quietShare = 0.03;

interface Outgoing {
  readonly id: string;
  readonly agent: string;
  readonly thread: string;
  readonly path: string;
  readonly turn: Acceptance['turn'];
  readonly body: object;
}

export interface SenderOptions {
  readonly name: string;
  readonly pods: readonly Pod[];
  readonly threads: { readonly busy: readonly string[]; readonly quiet: readonly string[] };
  readonly random: Random;
  /** Between two signals, ms. */
  readonly everyMs: number;
  /** Ends the tries of a signal that nobody accepts. */
  readonly giveUp: AbortSignal;
}

export class Sender {
  readonly acceptances: Acceptance[] = [];
  /** Being sent: its fate is not known. */
  pending: string | undefined;
  readonly #options: SenderOptions;
  #order = 0;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Sends until `signal` aborts, and the last one until it is accepted. */
  async run(signal: AbortSignal): Promise<void> {
    const { random, everyMs } = this.#options;
    while (!signal.aborted) {
      await this.send(this.#make(this.#thread()));
      await pause(everyMs * (0.5 + random.next()), undefined, { signal }).catch(() => {}); // aborted: the loop ends by itself
    }
  }

  /** A last message to each agent of each thread: whatever was only kept there must run along with it. */
  async close(): Promise<void> {
    const { busy, quiet } = this.#options.threads;
    for (const thread of [...busy, ...quiet]) {
      for (const agent of agentIds) await this.send(this.#message(thread, agent, 'send-message', 'current'));
    }
  }

  async send(outgoing: Outgoing): Promise<void> {
    const order = ++this.#order;
    const { id, thread, agent, turn } = outgoing;
    this.pending = id;
    const fromMs = Date.now();
    for (let tries = 1; !this.#options.giveUp.aborted; tries++) {
      const answer = await this.#attempt(outgoing);
      if (answer !== undefined) {
        const { name } = this.#options;
        this.acceptances.push({ id, thread, sender: name, order, agent, turn, ...answer, tries, fromMs, atMs: Date.now() });
        this.pending = undefined;
        return;
      }
      await pause(this.#options.random.between(20, 200));
    }
  }

  #thread(): string {
    const { random, threads: { busy, quiet } } = this.#options;
    return random.pick(quiet.length > 0 && random.chance(quietShare) ? quiet : busy);
  }

  #make(thread: string): Outgoing {
    const [share, agent] = [this.#options.random.next(), this.#options.random.pick(agentIds)];
    if (share < 0.45) return this.#message(thread, agent, 'send-message', 'current');
    if (share < 0.7) return this.#message(thread, agent, 'queue-message', 'next');
    if (share < 0.85) return this.#signal(thread, agent, { ifActive: { behavior: 'persist' }, ifIdle: { behavior: 'persist' } });
    if (share < 0.92) return this.#signal(thread, agent, { ifActive: { behavior: 'discard' }, ifIdle: { behavior: 'discard' } });
    return this.#signal(thread, agent, {});
  }

  #message(thread: string, agent: string, path: string, turn: Acceptance['turn']): Outgoing {
    const id = this.#id(thread);
    return { id, thread, agent, path, turn, body: { resourceId, threadId: thread, message: { id, contents: id } } };
  }

  #signal(thread: string, agent: string, behaviors: object): Outgoing {
    const id = this.#id(thread);
    const signal = { id, type: 'notification', contents: id };
    return { id, thread, agent, path: 'signals', turn: 'current', body: { resourceId, threadId: thread, signal, ...behaviors } };
  }

  #id(thread: string): string {
    return `${thread}/${this.#options.name}/${this.#order + 1}`;
  }

  /** What became of it, or `undefined` when this try brought no answer or a refusal that says "later". */
  async #attempt({ agent, path, body }: Outgoing): Promise<Pick<Acceptance, 'action' | 'runId'> | undefined> {
    const pod = this.#options.random.pick(this.#options.pods);
    const response = await ask<{ action?: string; runId?: string }>(pod, `api/agents/${agent}/${path}`, body);
    if (response === undefined) return undefined; // that is what the next try is for
    const { answer } = response;
    const { action, runId } = answer;
    if (response.ok && action !== undefined) return runId === undefined ? { action } : { action, runId };
    if (response.status === 503) return undefined;
    const said = pod.process.logs().slice(-10).join('\n');
    throw new Error(`${pod.name} answered ${response.status} to ${JSON.stringify(body)}: ${JSON.stringify(answer)}\n${said}`);
  }
}
