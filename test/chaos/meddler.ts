/** Changes its mind: aborts runs, takes back signals that wait, or both at once. Never asks twice. */

import { setTimeout as pause } from 'node:timers/promises';

import type { Acceptance, Withdrawal } from './history.ts';
import { agentIds, resourceId } from './names.ts';
import type { Pod } from './fleet.ts';
import type { Random } from './random.ts';
import { ask } from './request.ts';

export interface MeddlerOptions {
  readonly pods: readonly Pod[];
  readonly threads: readonly string[];
  readonly random: Random;
  /** Between two requests, ms. */
  readonly everyMs: number;
  /** What was accepted so far: signals to take back are chosen among the newest. */
  readonly accepted: (thread: string) => readonly Acceptance[];
}

type Request = Pick<Withdrawal, 'thread' | 'signalIds' | 'stops'>;
type Answer = NonNullable<Withdrawal['answer']>;

export class Meddler {
  readonly withdrawals: Withdrawal[] = [];
  readonly #options: MeddlerOptions;

  constructor(options: MeddlerOptions) {
    this.#options = options;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { random, everyMs, threads } = this.#options;
    while (!signal.aborted) {
      await pause(everyMs * (0.5 + random.next()), undefined, { signal }).catch(() => {}); // aborted: the loop ends by itself
      if (!signal.aborted) await this.#ask(random.pick(threads));
    }
  }

  async #ask(thread: string): Promise<void> {
    const request = this.#make(thread);
    const fromMs = Date.now();
    const pod = this.#options.random.pick(this.#options.pods);
    const answer = await this.#send(pod, request);
    this.withdrawals.push({ ...request, pod: pod.name, fromMs, toMs: Date.now(), ...(answer && { answer }) });
  }

  #make(thread: string): Request {
    const { random, accepted } = this.#options;
    const [share, chosen, narrow] = [random.next(), random.next(), random.chance(0.5)];
    const newest = accepted(thread).slice(-5);
    const one = newest[Math.floor(chosen * newest.length)];
    if (share < 0.4) return { thread, stops: narrow && one?.runId !== undefined ? one.runId : 'any', signalIds: [] };
    if (share < 0.6) return { thread, stops: narrow && one?.runId !== undefined ? one.runId : 'any' };
    return narrow && one ? { thread, signalIds: newest.slice(newest.indexOf(one)).map(({ id }) => id) } : { thread };
  }

  async #send(pod: Pod, { thread, signalIds, stops }: Request): Promise<Answer | undefined> {
    const expectedRunId = stops === 'any' ? undefined : stops;
    const [path, body] =
      stops === undefined
        ? [`v1/threads/${resourceId}/${thread}/cancel`, { signalIds }]
        : [`api/agents/${agentIds[0]}/threads/abort`, { resourceId, threadId: thread, expectedRunId, clearPendingSignals: signalIds === undefined }];
    const response = await ask<{ aborted?: boolean; runId?: string; cancelledSignalIds?: string[] }>(pod, path, body);
    // Nobody knows what became of it: the checker takes it for both.
    if (response === undefined || response.status === 503) return undefined;
    const { answer } = response;
    if (!response.ok) throw new Error(`${pod.name} answered ${response.status} to ${path}: ${JSON.stringify(answer)}`);
    const { aborted = false, runId, cancelledSignalIds: withdrawn = [] } = answer;
    return { withdrawn, ...(aborted && runId !== undefined ? { stopped: runId } : {}) };
  }
}
