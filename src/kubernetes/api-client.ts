/**
 * Requests to the API server: where it is and how to authenticate comes from the client library, the requests are ours.
 *
 * Why not the library's own: its generated calls have no time limit, and its watch drops lines that it can't parse without a
 * word, together with whatever its callback threw. Here each call has a limit and each failure is seen.
 */

import { request as httpRequest } from 'node:http';
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { RequestOptions } from 'node:https';

import type { KubeConfig } from '@kubernetes/client-node';

import type { Clock } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PATCH';
  /** Without the server's own address; its parts already encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** The server said no, or could not be asked: then without a status. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number | undefined;
  /** How long the server asks us to stay away. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, facts: { status?: number; retryAfterMs?: number; cause?: unknown } = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.status = facts.status;
    this.retryAfterMs = facts.retryAfterMs;
  }
}

export interface ApiClientOptions {
  /**
   * Called for every request, so that a rotated token or authority is used from then on. Requests are few enough for that.
   * May throw: then the request fails.
   */
  readonly loadConfig: () => KubeConfig;
  readonly clock: Clock;
  /** Longest wait for an answer. Default 10000. */
  readonly limitMs?: number;
}

/** Answers larger than this are not ours: a ConfigMap has at most 1 MiB. */
const largestAnswerBytes = 16 * 1024 * 1024;
const shownCharacters = 300;

export class ApiClient {
  readonly #options: ApiClientOptions;
  readonly #limitMs: number;

  constructor(options: ApiClientOptions) {
    this.#options = options;
    this.#limitMs = options.limitMs ?? 10_000;
  }

  /** The answer's JSON. Throws `ApiError`. */
  async json(request: ApiRequest, signal?: AbortSignal): Promise<unknown> {
    return await this.#limited(signal, async limited => {
      const text = await bodyOf(await this.#send(request, limited));
      try {
        return JSON.parse(text) as unknown;
      } catch (error) {
        throw new ApiError(`the answer is not JSON: ${text.slice(0, shownCharacters)}`, { cause: error });
      }
    });
  }

  /** Resolves when the answer begins; it goes on until the server ends it or `signal` aborts. Throws `ApiError`. */
  open(request: ApiRequest, signal: AbortSignal): Promise<IncomingMessage> {
    return this.#limited(signal, limited => this.#send(request, limited));
  }

  async #limited<T>(signal: AbortSignal | undefined, work: (limited: AbortSignal) => Promise<T>): Promise<T> {
    const limit = new AbortController();
    const timer = this.#options.clock.after(this.#limitMs, () => limit.abort());
    try {
      return await work(signal ? AbortSignal.any([signal, limit.signal]) : limit.signal);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      const message = limit.signal.aborted ? `no answer within ${this.#limitMs} ms` : failureText(error);
      throw new ApiError(message, { cause: error });
    } finally {
      timer.cancel();
    }
  }

  async #send({ method, path, query, body }: ApiRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const config = this.#options.loadConfig();
    const server = config.getCurrentCluster()?.server;
    if (server === undefined) throw new ApiError('no API server is configured');
    const options: RequestOptions = {};
    await config.applyToHTTPSOptions(options);
    const url = new URL(server.replace(/\/$/, '') + path);
    for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, value);
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      ...(options.headers as OutgoingHttpHeaders | undefined),
      accept: 'application/json',
      'user-agent': 'signals-runtime',
      ...(text === undefined ? {} : { 'content-type': contentTypes[method], 'content-length': Buffer.byteLength(text) }),
    };
    const send = url.protocol === 'http:' ? httpRequest : httpsRequest;
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = send(url, { ...options, method, headers, signal }, resolve);
      outgoing.on('error', reject);
      outgoing.end(text);
    });
    if (response.statusCode === undefined || response.statusCode >= 300) throw await refusal(response);
    return response;
  }
}

const contentTypes = { GET: '', POST: 'application/json', PATCH: 'application/merge-patch+json' } as const;

/** Several addresses that all refuse make an error without a message. */
function failureText(error: unknown): string {
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return errorMessage(inner);
}

async function refusal(response: IncomingMessage): Promise<ApiError> {
  const status = response.statusCode ?? 0;
  const text = await bodyOf(response);
  const seconds = Number(response.headers['retry-after']);
  return new ApiError(`${status}: ${statusMessage(text)}`, {
    status,
    ...(seconds > 0 ? { retryAfterMs: seconds * 1000 } : {}),
  });
}

/** The server's refusals are `Status` objects; what stands between us and it may answer anything. */
function statusMessage(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    if (typeof message === 'string') return message.slice(0, shownCharacters);
  } catch {
    // Not a `Status`; its text says more than the error would.
  }
  return text.slice(0, shownCharacters);
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > largestAnswerBytes) throw new ApiError(`the answer is larger than ${largestAnswerBytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
