/**
 * One ConfigMap, followed by name through the API server: list, then watch from there, and again.
 *
 * A watch alone is never trusted (README beside this file): it is read anew on a jittered timer, when the server no longer
 * knows where we were, when it says something that can't be parsed, and when it has been silent for longer than its bookmarks
 * allow. A change that a watch which stood did not tell of is counted. Whatever fails, what was read last stays, and the next try waits.
 */

import { backoffMs, jitterMs } from '../core/backoff.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { sleep } from '../core/waits.ts';
import type { SourceTrouble } from '../contracts/lifecycle.ts';
import { ApiError } from './api-client.ts';
import type { ApiClient } from './api-client.ts';
import { parseList, parseWatchLine, sameValues } from './config-map.ts';
import type { ConfigMapValues, SeenConfigMap } from './config-map.ts';
import { linesOf } from './lines.ts';

export interface WatchTiming {
  /** Read anew this often, give or take a fifth. */
  readonly relistMs: number;
  /** Neither an event nor a bookmark for that long: the connection is taken for dead. Servers send a bookmark a minute. */
  readonly silenceMs: number;
  /** A watch that lived this long was a good one; the next delay starts from the first again. */
  readonly steadyMs: number;
  readonly firstDelayMs: number;
  readonly longestDelayMs: number;
}

export const defaultTiming: WatchTiming = {
  relistMs: 300_000,
  silenceMs: 150_000,
  steadyMs: 30_000,
  firstDelayMs: 1000,
  longestDelayMs: 30_000,
};

export interface ConfigMapSourceOptions {
  readonly api: ApiClient;
  readonly namespace: string;
  readonly name: string;
  /** Gets all values after each change; none when the ConfigMap was deleted. */
  readonly feed: (values: ConfigMapValues) => void;
  readonly count: (trouble: SourceTrouble) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly timing?: Partial<WatchTiming>;
  readonly random?: () => number;
}

/** Why one watch is over. `due`: it is time to read anew; `closed`: the server ended it. */
type WatchEnd = 'due' | 'closed' | 'expired' | 'silent' | 'unparsable' | 'stopped';

const longestLine = 8 * 1024 * 1024;

export class ConfigMapSource {
  /** Resolves when the first reading was tried, whatever became of it. */
  readonly firstRead: Promise<void>;
  readonly #options: ConfigMapSourceOptions;
  readonly #timing: WatchTiming;
  readonly #random: () => number;
  readonly #stopping = new AbortController();
  readonly #done: Promise<void>;
  #firstReadDone = () => {};
  /** What was fed last; `undefined` before that. */
  #fed: ConfigMapValues | undefined;
  #listed = false;
  /** The last watch stood until it was due or fell silent: a change up to there is one that it had to tell of. */
  #watchStood = false;
  /** Tries since the last watch that lived. */
  #attempts = 0;
  #saidFailures = new Set<string>();

  /** Starts at once. */
  constructor(options: ConfigMapSourceOptions) {
    this.#options = options;
    this.#timing = { ...defaultTiming, ...options.timing };
    this.#random = options.random ?? Math.random;
    this.firstRead = new Promise(resolve => (this.#firstReadDone = resolve));
    this.#done = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const delayMs = await this.#round();
      this.#firstReadDone();
      if (delayMs > 0) await sleep(clock, delayMs, signal);
    }
    this.#firstReadDone();
  }

  /** Reads, then watches for as long as that goes well. Answers how long to wait before the next. Never throws. */
  async #round(): Promise<number> {
    const startedMs = this.#options.clock.monotonicMs();
    try {
      const end = await this.#watch(await this.#list());
      this.#watchStood = end === 'due' || end === 'silent';
      if (end === 'expired' || end === 'silent' || end === 'unparsable') this.#trouble(end);
    } catch (error) {
      if (this.#stopping.signal.aborted) return 0;
      this.#watchStood = false;
      return this.#failed(error);
    }
    const steady = this.#options.clock.monotonicMs() - startedMs >= this.#timing.steadyMs;
    if (steady) {
      this.#attempts = 0;
      return 0;
    }
    return this.#nextDelayMs();
  }

  async #list(): Promise<string> {
    const { api, name, logger } = this.#options;
    const answer = await api.json({ method: 'GET', path: this.#path(), query: this.#query() }, this.#stopping.signal);
    const list = parseList(answer, name);
    if (!list) throw new ApiError('the answer is not a list of ConfigMaps');
    if (!this.#listed && !list.found) logger.info('the ConfigMap is not there; its settings count once it is', { name });
    this.#see(list.found, 'list');
    this.#listed = true;
    this.#firstReadDone();
    return list.resourceVersion;
  }

  async #watch(resourceVersion: string): Promise<WatchEnd> {
    const { api, clock } = this.#options;
    const relistMs = jitterMs(this.#timing.relistMs, 0.2, this.#random);
    const query = {
      ...this.#query(),
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion,
      // Ours comes first; this one ends what we left behind.
      timeoutSeconds: String(Math.ceil(relistMs / 1000) + 10),
    };
    const watch = new OpenWatch(clock, this.#timing.silenceMs, relistMs, this.#stopping.signal);
    try {
      const stream = await api.open({ method: 'GET', path: this.#path(), query }, watch.signal);
      this.#works();
      const reading = { longest: longestLine, onTooLong: () => watch.end('unparsable') };
      for await (const line of linesOf(stream as AsyncIterable<Buffer>, reading)) {
        const end = this.#take(line);
        if (end) watch.end(end);
        if (watch.ended) break;
        watch.heard();
      }
      return watch.ended ?? 'closed';
    } catch (error) {
      if (watch.ended) return watch.ended;
      if (error instanceof ApiError && error.status === 410) return 'expired';
      // A connection that broke once it stood is nothing unusual; what broke it will be said if reading fails too.
      if (!(error instanceof ApiError)) return 'closed';
      throw error;
    } finally {
      watch.close();
    }
  }

  /** Answers why the watch can't go on, if so. */
  #take(line: string): WatchEnd | undefined {
    const event = parseWatchLine(line, this.#options.name);
    // It may have been a change: only reading again can tell.
    if (!event) return 'unparsable';
    if (event.type === 'error') {
      if (event.code === 410) return 'expired';
      throw new ApiError(event.message, event.code === undefined ? {} : { status: event.code });
    }
    if (event.type === 'seen') this.#see(event.configMap, 'watch');
    if (event.type === 'deleted') this.#see(undefined, 'watch');
    return undefined;
  }

  #see(configMap: SeenConfigMap | undefined, by: 'list' | 'watch'): void {
    const { feed, logger, name } = this.#options;
    const values = configMap?.values ?? {};
    const changed = this.#fed === undefined ? configMap !== undefined : !sameValues(values, this.#fed);
    if (!changed) return;
    if (by === 'list' && this.#watchStood) {
      this.#trouble('missed');
      logger.warn('a change of settings was found by reading again: no watch had told of it', { name });
    }
    this.#fed = values;
    feed(values);
  }

  /** Said once per kind of failure, until reading works again: an outage must not fill the log. */
  #failed(error: unknown): number {
    this.#trouble('failed');
    const { name, namespace, logger } = this.#options;
    const status = error instanceof ApiError ? error.status : undefined;
    const kind = String(status ?? 'unreachable');
    if (!this.#saidFailures.has(kind)) {
      this.#saidFailures.add(kind);
      const hint = status === 403 ? { needed: `get, list and watch on configmaps/${name}` } : {};
      logger.warn('settings could not be read from the ConfigMap; those in effect stay', {
        name, namespace, error: errorMessage(error), ...hint,
      });
    }
    // Not being allowed is tried again like everything else: an API server that just started says that to everybody.
    const retryAfterMs = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
    return Math.max(this.#nextDelayMs(), Math.min(retryAfterMs, 2 * this.#timing.longestDelayMs));
  }

  /** Not before the watch stands: with a right to list only, this would be said again and again. */
  #works(): void {
    if (this.#saidFailures.size === 0) return;
    this.#saidFailures.clear();
    this.#options.logger.info('settings are read from the ConfigMap again', { name: this.#options.name });
  }

  #trouble(trouble: SourceTrouble): void {
    this.#options.count(trouble);
    this.#options.logger.debug('a watch of settings was not as it should be', { name: this.#options.name, trouble });
  }

  #nextDelayMs(): number {
    this.#attempts++;
    return backoffMs(this.#attempts, this.#timing.firstDelayMs, this.#timing.longestDelayMs, this.#random);
  }

  #path(): string {
    return `/api/v1/namespaces/${encodeURIComponent(this.#options.namespace)}/configmaps`;
  }

  /** By name: that is what a Role with `resourceNames` allows. */
  #query(): Record<string, string> {
    return { fieldSelector: `metadata.name=${this.#options.name}` };
  }
}

/** One watch and the timers that may end it. */
class OpenWatch {
  ended: WatchEnd | undefined;
  readonly #clock: Clock;
  readonly #silenceMs: number;
  readonly #abort = new AbortController();
  readonly #stop: AbortSignal;
  readonly #due: Timer;
  #silence: Timer;

  constructor(clock: Clock, silenceMs: number, relistMs: number, stop: AbortSignal) {
    this.#clock = clock;
    this.#silenceMs = silenceMs;
    this.#stop = stop;
    this.#due = clock.after(relistMs, () => this.end('due'));
    this.#silence = clock.after(silenceMs, () => this.end('silent'));
    stop.addEventListener('abort', this.#onStop, { once: true });
    if (stop.aborted) this.end('stopped');
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  heard(): void {
    this.#silence.cancel();
    this.#silence = this.#clock.after(this.#silenceMs, () => this.end('silent'));
  }

  /** The first reason counts. */
  end(reason: WatchEnd): void {
    this.ended ??= reason;
    this.#abort.abort();
  }

  close(): void {
    this.#due.cancel();
    this.#silence.cancel();
    this.#stop.removeEventListener('abort', this.#onStop);
    this.#abort.abort();
  }

  readonly #onStop = (): void => this.end('stopped');
}
