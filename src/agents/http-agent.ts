/** An agent behind a URL: signals are posted, chunks are streamed back. */

import type { AgentDefinition, AgentRun, Chunk } from '../contracts/agent.ts';
import { backoffMs } from '../core/backoff.ts';
import { systemClock } from '../core/clock.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { errorMessage, invalidOption, isSignalsError, SignalsError } from '../core/errors.ts';
import { sleep } from '../core/waits.ts';
import { forwardArrivals } from './arrival-forwarder.ts';
import { readChunks } from './chunk-stream.ts';

export interface HttpAgentOptions {
  readonly id: string;
  /** Default: the id. */
  readonly name?: string;
  readonly description?: string;
  /** `http:` or `https:`. */
  readonly url: string;
  /** Sent with every request, for authorization for example. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Tries until the first chunk. Default 3. */
  readonly attempts?: number;
  /** Longest wait for the first byte of an answer, ms. Default 30000, at most 300000. */
  readonly responseTimeoutMs?: number;
  /** Longest silence within an answer, ms; comments of server-sent events count as life. Default 120000, at most 300000. */
  readonly idleTimeoutMs?: number;
  /** Headers of the current trace. */
  readonly traceHeaders?: () => Readonly<Record<string, string>> | undefined;
  readonly clock?: Clock;
}

/** Node's own `fetch` gives up after 300 s, so a longer limit would be a promise that is not kept. */
const longestTimeoutMs = 300_000;

/** Answers after which the same request may go well. */
const passingStatuses: readonly number[] = [408, 425, 429, 500, 502, 503, 504];

type Checked = Required<Omit<HttpAgentOptions, 'description'>>;

/**
 * The request's body is `{ agentId, runId, thread, signals, attempt, fencingToken?, options? }`; the fencing token, the run
 * id and the attempt are in headers as well. Once a chunk was seen a failure is the run's failure: to ask again would
 * double what the agent did.
 *
 * Signals that arrive while it runs are posted to the URL that its answer names in the header `signals-deliver-url`, relative to
 * the agent's own and of the same origin: `{ runId, thread, signals }`, under the same headers. With a 2xx they are that run's.
 * Otherwise, and where no such URL was named, they wait for the next run.
 *
 * Throws `SIG_OPTION_INVALID`; its runs throw `SIG_RUN_FAILED`.
 */
export function httpAgent(options: HttpAgentOptions): AgentDefinition {
  const checked = checkedOptions(options);
  const { id, name } = checked;
  const description = options.description === undefined ? {} : { description: options.description };
  return { id, name, ...description, run: run => runRemote(checked, run) };
}

async function* runRemote(options: Checked, run: AgentRun): AsyncIterable<Chunk> {
  for (let attempt = 1; ; attempt++) {
    let seen = false;
    try {
      for await (const chunk of request(options, run, () => (seen = true))) {
        seen = true;
        yield chunk;
      }
      return;
    } catch (error) {
      if (run.abortSignal.aborted) return;
      if (seen || attempt >= options.attempts || isSignalsError(error)) throw runFailed(options, error, attempt);
    }
    await sleep(options.clock, backoffMs(attempt, 200, 5000), run.abortSignal);
    if (run.abortSignal.aborted) return;
  }
}

async function* request(options: Checked, run: AgentRun, onTaken: () => void): AsyncIterable<Chunk> {
  const limit = new Limit(options.clock);
  const signal = AbortSignal.any([run.abortSignal, limit.signal]);
  try {
    limit.set(options.responseTimeoutMs, 'gave no answer');
    const response = await fetch(options.url, {
      method: 'POST',
      headers: headersOf(options, run),
      body: bodyOf(run),
      redirect: 'manual', // elsewhere the headers might tell a secret to a stranger
      signal,
    });
    if (!response.ok || !response.body) throw await refused(response);
    limit.set(options.idleTimeoutMs, 'was silent');
    const requestHeaders = headersOf(options, run);
    const arrivals = forwardArrivals({ ...options, requestHeaders, onTaken }, run, response.headers.get('signals-deliver-url'));
    try {
      yield* readChunks(response.headers.get('content-type'), limit.renewedBy(response.body, options.idleTimeoutMs));
    } finally {
      await arrivals.stop();
    }
  } catch (error) {
    throw limit.signal.aborted ? limit.signal.reason : error;
  } finally {
    limit.clear();
  }
}

/** One deadline at a time, set anew by whatever counts as life. */
class Limit {
  readonly #clock: Clock;
  readonly #controller = new AbortController();
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  set(limitMs: number, what: string): void {
    this.clear();
    this.#timer = this.#clock.after(limitMs, () => this.#controller.abort(new Error(`it ${what} for ${limitMs} ms`)));
  }

  /** The clock stands still while the reader of the chunks is busy: only the sender's silence counts. */
  async *renewedBy(body: AsyncIterable<Uint8Array>, limitMs: number): AsyncIterable<Uint8Array> {
    for await (const bytes of body) {
      this.clear();
      yield bytes;
      this.set(limitMs, 'was silent');
    }
  }

  clear(): void {
    this.#timer?.cancel();
  }
}

function headersOf(options: Checked, run: AgentRun): Record<string, string> {
  return {
    ...options.headers,
    ...options.traceHeaders(),
    'content-type': 'application/json',
    accept: 'text/event-stream, application/x-ndjson',
    'signals-run-id': run.runId,
    'signals-attempt': String(run.attempt),
    ...(run.fencingToken === undefined ? {} : { 'signals-fencing-token': String(run.fencingToken) }),
  };
}

function bodyOf({ agentId, runId, thread, signals, attempt, fencingToken, options }: AgentRun): string {
  return JSON.stringify({ agentId, runId, thread, signals, attempt, fencingToken, options });
}

/** What is worth another try is a plain error; what is not is one of ours. */
async function refused(response: Response): Promise<Error> {
  await response.body?.cancel();
  const message = `it answered ${response.status}`;
  if (passingStatuses.includes(response.status)) return new Error(message);
  return new SignalsError('SIG_RUN_FAILED', message, { details: { status: response.status } });
}

function runFailed({ id }: Checked, error: unknown, attempts: number): SignalsError {
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : '';
  const message = `agent ${JSON.stringify(id)} failed at try ${attempts}: ${errorMessage(error)}${cause}`;
  return new SignalsError('SIG_RUN_FAILED', message, { cause: error, details: { agentId: id, attempts } });
}

function checkedOptions(options: HttpAgentOptions): Checked {
  const { id, name = id, headers = {}, attempts = 3, responseTimeoutMs = 30_000, idleTimeoutMs = 120_000 } = options;
  if (id === '') throw invalidOption('id', id, 'a text that is not empty');
  const url = URL.canParse(options.url) ? new URL(options.url) : undefined;
  if (!url || !['http:', 'https:'].includes(url.protocol)) throw invalidOption('url', options.url, 'an http: or https: URL');
  checkWhole('attempts', attempts, 100);
  checkWhole('responseTimeoutMs', responseTimeoutMs, longestTimeoutMs);
  checkWhole('idleTimeoutMs', idleTimeoutMs, longestTimeoutMs);
  const { traceHeaders = () => undefined, clock = systemClock } = options;
  return { id, name, url: url.href, headers, attempts, responseTimeoutMs, idleTimeoutMs, traceHeaders, clock };
}

function checkWhole(name: string, value: number, most: number): void {
  if (!Number.isSafeInteger(value) || value < 1 || value > most) {
    throw invalidOption(name, value, `a whole number from 1 to ${most}`);
  }
}
