/** Signals that arrive during the run of a remote agent, on their way to it. */

import type { AgentRun } from '../contracts/agent.ts';
import type { Signal } from '../contracts/signal.ts';
import type { Clock } from '../core/clock.ts';
import { SignalsError } from '../core/errors.ts';

export interface ForwarderOptions {
  /** The agent's own. */
  readonly url: string;
  /** Longest wait for the agent to say that it has them, ms. */
  readonly responseTimeoutMs: number;
  readonly requestHeaders: Readonly<Record<string, string>>;
  readonly clock: Clock;
  /** The agent has confirmed some: to run it anew would lose them. */
  readonly onTaken: () => void;
}

export interface ArrivalForwarder {
  /** Resolves when nothing is on its way any more. What was not confirmed by then is the next run's. */
  stop(): Promise<void>;
}

const nothingToDo: ArrivalForwarder = { stop: () => Promise.resolve() };

/**
 * One request after the other, so that their order is kept; at the first that fails it gives up, for the same reason.
 *
 * @param deliverUrl what the agent's answer named, if it did. Throws `SIG_RUN_FAILED` when it is not of the agent's origin: the
 *   headers may hold a secret.
 */
export function forwardArrivals(options: ForwarderOptions, run: AgentRun, deliverUrl: string | null): ArrivalForwarder {
  if (deliverUrl === null) return nothingToDo;
  const url = URL.canParse(deliverUrl, options.url) ? new URL(deliverUrl, options.url) : undefined;
  if (url?.origin !== new URL(options.url).origin) {
    throw new SignalsError('SIG_RUN_FAILED', 'the signals-deliver-url of an agent must be of the same origin as the agent');
  }
  const arrivals = run.arrivals[Symbol.asyncIterator]();
  const forwarding = (async () => {
    for (let next = await arrivals.next(); !next.done; next = await arrivals.next()) {
      const signals = [next.value, ...run.arrivals.drain()];
      if (!(await isTaken(options, run, url, signals))) return run.arrivals.giveBack(signals);
      options.onTaken();
    }
  })();
  return {
    async stop() {
      await arrivals.return?.();
      await forwarding;
    },
  };
}

async function isTaken(options: ForwarderOptions, run: AgentRun, url: URL, signals: readonly Signal[]): Promise<boolean> {
  const late = new AbortController();
  const limit = options.clock.after(options.responseTimeoutMs, () => late.abort());
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: options.requestHeaders,
      body: JSON.stringify({ runId: run.runId, thread: run.thread, signals }),
      redirect: 'manual',
      signal: AbortSignal.any([run.abortSignal, late.signal]),
    });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false; // gone, late, or the run is to stop: nobody knows whether it has them, so they are given again
  } finally {
    limit.cancel();
  }
}
