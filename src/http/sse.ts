/** Server-sent events: a thread's output to one viewer, for as long as both want. */

import { once } from 'node:events';

import type { Request, Response } from 'express';

import type { OutputChunk } from '../contracts/thread-mailbox.ts';
import { errorMessage, isSignalsError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';

export interface StreamOptions {
  /** A comment is sent when nothing else was for this long, so that proxies keep the connection. */
  readonly heartbeatMs: number;
  readonly logger: Logger;
}

/** The streams that are open, so that a shutdown can end them all. Ending one stops nothing but the viewing. */
export class OpenStreams {
  readonly #open = new Set<AbortController>();
  readonly #options: StreamOptions;
  #ended = false;

  constructor(options: StreamOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Also those that would be opened later: they end at once. */
  endAll(): void {
    this.#ended = true;
    for (const stop of this.#open) stop.abort();
  }

  /**
   * Resolves when the stream is over, for whatever reason. What fails before the position to read from is fixed is thrown, and
   * becomes an ordinary answer; later failures end the stream and are logged. The headers go out when it is fixed: whoever has
   * them misses nothing that is put out from then on.
   */
  async serve(
    request: Request,
    response: Response,
    follow: (signal: AbortSignal) => Promise<AsyncIterable<OutputChunk>>,
  ): Promise<void> {
    const stop = new AbortController();
    if (this.#ended) stop.abort();
    this.#open.add(stop);
    response.once('close', () => stop.abort());
    try {
      const outputs = await follow(stop.signal);
      const stream = new EventStream(response, encodingFor(request), this.#options);
      await this.#copy(outputs, stream, stop.signal);
    } finally {
      stop.abort();
      this.#open.delete(stop);
    }
  }

  async #copy(outputs: AsyncIterable<OutputChunk>, stream: EventStream, stop: AbortSignal): Promise<void> {
    stop.addEventListener('abort', () => stream.end(), { once: true });
    try {
      stream.open();
      if (stop.aborted) return;
      for await (const output of outputs) if (!(await stream.write(output, stop))) break;
    } catch (error) {
      if (!stop.aborted) this.#failed(stream, error);
    } finally {
      stream.end();
    }
  }

  #failed(stream: EventStream, error: unknown): void {
    this.#options.logger.warn('a stream to a subscriber ended early', { error: errorMessage(error) });
    stream.comment(`ended early: ${isSignalsError(error) ? error.code : 'SIG_INTERNAL'}`);
  }
}

type Encoding = (output: OutputChunk) => string;

const standard: Encoding = output => `id: ${output.id}\ndata: ${JSON.stringify(output.chunk)}\n\n`;

/**
 * `@mastra/client-js` takes a block only if it starts with `data: ` and parses all of it as JSON. The id goes in a block
 * of its own behind it: by the standard that sets the last event id and dispatches nothing, and this client skips it.
 */
const idApart: Encoding = output => `data: ${JSON.stringify(output.chunk)}\n\nid: ${output.id}\n\n`;

/** That client asks for no type; whoever reads the standard format says so. */
function encodingFor(request: Request): Encoding {
  return request.headers.accept?.includes('text/event-stream') ? standard : idApart;
}

/** A reader that took nothing for so many of them is taken for gone. */
const missedHeartbeats = 4;

class EventStream {
  readonly #response: Response;
  readonly #encode: Encoding;
  readonly #options: StreamOptions;
  #heartbeat: NodeJS.Timeout | undefined;

  constructor(response: Response, encode: Encoding, options: StreamOptions) {
    this.#response = response;
    this.#encode = encode;
    this.#options = options;
  }

  open(): void {
    this.#response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-cache, no-transform',
      // nginx would hold chunks back until its buffer is full
      'X-Accel-Buffering': 'no',
    });
    this.#response.flushHeaders();
    this.#heartbeat = setInterval(() => this.comment('heartbeat'), this.#options.heartbeatMs);
    this.#heartbeat.unref();
  }

  /** Waits while the reader is behind, so that a slow one costs one chunk of memory. `false`: it is over. */
  async write(output: OutputChunk, signal: AbortSignal): Promise<boolean> {
    if (this.#over) return false;
    this.#heartbeat?.refresh();
    if (!this.#response.write(this.#encode(output))) await this.#drained(signal);
    return !this.#over;
  }

  /** Not for ever: a reader whose machine is gone would be waited for until TCP gives up. It can resume where it was. */
  async #drained(signal: AbortSignal): Promise<void> {
    const cut = setTimeout(() => {
      this.#options.logger.debug('a subscriber read nothing for too long and was cut off');
      this.#response.destroy();
    }, this.#options.heartbeatMs * missedHeartbeats);
    cut.unref();
    try {
      await once(this.#response, 'drain', { signal });
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      clearTimeout(cut);
    }
  }

  comment(text: string): void {
    // A reader that is behind has bytes on the way already; more would only pile up.
    if (!this.#over && !this.#response.writableNeedDrain) this.#response.write(`: ${text}\n\n`);
  }

  end(): void {
    clearInterval(this.#heartbeat);
    if (!this.#over) this.#response.end();
  }

  get #over(): boolean {
    return this.#response.writableEnded || this.#response.destroyed;
  }
}
