/**
 * Events on our own pod, for who looks with `kubectl describe pod` or collects them.
 *
 * They are told, not relied on: nothing waits for them, and nothing fails with them. The same thing again within a few minutes
 * becomes a count on the first Event, written at most every half minute; beyond that a token bucket bounds what is sent. Without
 * permission that is said once, and nothing is tried for ten minutes: for good would be wrong, since an API server that just
 * started may refuse everybody.
 */

import { randomBytes } from 'node:crypto';

import type { EventsV1Event } from '@kubernetes/client-node';

import type { LifecycleEvent, LifecycleListener } from '../contracts/lifecycle.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { settledWithin } from '../core/waits.ts';
import { ApiError } from './api-client.ts';
import type { ApiClient } from './api-client.ts';
import { eventTextOf } from './lifecycle-events.ts';
import type { EventText } from './lifecycle-events.ts';
import { TokenBucket } from './token-bucket.ts';

export interface PodIdentity {
  readonly namespace: string;
  readonly podName: string;
  /** With it `kubectl describe pod` shows the Events. */
  readonly podUid?: string;
}

export interface EventRecorderOptions {
  readonly api: ApiClient;
  readonly pod: PodIdentity;
  readonly instanceId: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** One Event that was sent, and how often it happened. */
interface Series {
  readonly text: EventText;
  /** Of the Event at the server; `undefined` until it is known to be there. */
  name?: string;
  count: number;
  /** What the server was told. */
  told: number;
  lastMs: number;
  lastWallMs: number;
  timer?: Timer;
}

/** As long as Kubernetes' own recorder keeps a series open. */
const seriesMs = 6 * 60_000;
const seriesUpdateMs = 30_000;
const burst = 20;
const refillMs = 15_000;
const forbiddenMs = 600_000;
/** Different things that wait to be sent, or are remembered. More means that something is very wrong, and is in the logs. */
const mostWaiting = 32;
const mostSeries = 64;
/** The server allows 1 kB. */
const longestNote = 1000;

export class EventRecorder implements LifecycleListener {
  readonly #options: EventRecorderOptions;
  readonly #bucket: TokenBucket;
  readonly #series = new Map<string, Series>();
  readonly #waiting = new Set<Series>();
  readonly #stopping = new AbortController();
  #sending: Promise<void> | undefined;
  #closed = false;
  #quietUntilMs = 0;
  #saidForbidden = false;
  #failing = false;
  #dropped = 0;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#bucket = new TokenBucket(options.clock, burst, refillMs);
  }

  /** Things that happened and are on no Event. */
  get dropped(): number {
    return this.#dropped;
  }

  happened(event: LifecycleEvent): void {
    if (this.#quiet) return;
    const series = this.#seriesOf(eventTextOf(event));
    series.count++;
    series.lastMs = this.#options.clock.monotonicMs();
    series.lastWallMs = this.#options.clock.wallMs();
    if (series.count === 1) this.#send(series);
    else series.timer ??= this.#options.clock.after(seriesUpdateMs, () => this.#update(series));
  }

  /** Sends what waits, for at most `limitMs`. */
  async close(limitMs: number): Promise<void> {
    for (const series of this.#series.values()) if (series.timer) this.#update(series);
    if (this.#sending) await settledWithin(this.#options.clock, limitMs, this.#sending);
    this.#closed = true;
    this.#stopping.abort();
    this.#forgetAll();
  }

  get #quiet(): boolean {
    return this.#closed || this.#options.clock.monotonicMs() < this.#quietUntilMs;
  }

  #seriesOf(text: EventText): Series {
    const { clock } = this.#options;
    const key = `${text.reason}\n${text.note}`;
    const known = this.#series.get(key);
    if (known && clock.monotonicMs() - known.lastMs < seriesMs) return known;
    if (known?.timer) this.#update(known);
    const series: Series = { text, count: 0, told: 0, lastMs: 0, lastWallMs: 0 };
    this.#series.delete(key);
    this.#series.set(key, series);
    this.#forgetOldest();
    return series;
  }

  #forgetOldest(): void {
    const [oldest] = this.#series;
    if (!oldest || this.#series.size <= mostSeries) return;
    oldest[1].timer?.cancel();
    this.#series.delete(oldest[0]);
  }

  #update(series: Series): void {
    series.timer?.cancel();
    delete series.timer;
    this.#send(series);
  }

  #send(series: Series): void {
    if (this.#quiet) return;
    if (this.#waiting.size >= mostWaiting || !this.#bucket.take()) {
      this.#dropped++;
      this.#options.logger.debug('an Event was not sent: there are too many', { reason: series.text.reason });
      return;
    }
    this.#waiting.add(series);
    this.#sending ??= this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    for (const series of this.#waiting) {
      this.#waiting.delete(series);
      if (!this.#quiet) await this.#write(series);
    }
    this.#sending = undefined;
  }

  /** Never rejects. What could not be sent is not tried again by itself: the next time that it happens, it is. */
  async #write(series: Series): Promise<void> {
    const { count } = series;
    try {
      await this.#createOrCount(series, count);
      series.told = count;
      if (this.#failing) this.#options.logger.info('Events are sent again');
      this.#failing = false;
      this.#saidForbidden = false;
    } catch (error) {
      this.#failed(series, error);
    }
  }

  async #createOrCount(series: Series, count: number): Promise<void> {
    if (series.name !== undefined && (await this.#count(series, series.name, count))) return;
    const event = this.#eventOf(series, count);
    await this.#options.api.json({ method: 'POST', path: this.#path(), body: event }, this.#stopping.signal);
    series.name = event.metadata.name;
  }

  /** Answers whether the Event was still there: servers keep them for an hour or so. */
  async #count(series: Series, name: string, count: number): Promise<boolean> {
    const body = { series: seriesOf(series, count) };
    try {
      await this.#options.api.json({ method: 'PATCH', path: `${this.#path()}/${name}`, body }, this.#stopping.signal);
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return false;
      throw error;
    }
  }

  #failed({ text }: Series, error: unknown): void {
    const { logger } = this.#options;
    this.#dropped++;
    if (this.#closed) return;
    if (error instanceof ApiError && error.status === 403) {
      this.#quietUntilMs = this.#options.clock.monotonicMs() + forbiddenMs;
      this.#forgetAll();
      if (this.#saidForbidden) return;
      this.#saidForbidden = true;
      logger.warn('Events are off: this pod may not send them', {
        error: errorMessage(error), needed: 'create and patch on events in events.k8s.io',
      });
      return;
    }
    if (!this.#failing) logger.warn('Events could not be sent', { reason: text.reason, error: errorMessage(error) });
    this.#failing = true;
  }

  #forgetAll(): void {
    this.#waiting.clear();
    for (const series of this.#series.values()) series.timer?.cancel();
    this.#series.clear();
  }

  #eventOf(series: Series, count: number) {
    const { pod, instanceId } = this.#options;
    const { type, reason, action, note } = series.text;
    return {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      // A pod's name may be as long as an Event's.
      metadata: { name: `${pod.podName.slice(0, 230)}.${randomBytes(8).toString('hex')}`, namespace: pod.namespace },
      eventTime: microTime(series.lastWallMs),
      reportingController: 'signals-runtime',
      reportingInstance: instanceId.slice(0, 128),
      regarding: {
        apiVersion: 'v1',
        kind: 'Pod',
        namespace: pod.namespace,
        name: pod.podName,
        ...(pod.podUid === undefined ? {} : { uid: pod.podUid }),
      },
      type,
      reason,
      action,
      note: cut(note),
      ...(count > 1 ? { series: seriesOf(series, count) } : {}),
    } satisfies Wire<EventsV1Event>;
  }

  #path(): string {
    return `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(this.#options.pod.namespace)}/events`;
  }
}

/** The library's types have dates where JSON has text. */
type Wire<T> = { [Field in keyof T]: T[Field] extends Date | undefined ? string : Wire<T[Field]> };

function seriesOf({ lastWallMs }: Series, count: number) {
  return { count, lastObservedTime: microTime(lastWallMs) };
}

/** Microseconds, exactly six digits: the server takes nothing else. */
function microTime(wallMs: number): string {
  return new Date(wallMs).toISOString().replace('Z', '000Z');
}

function cut(note: string): string {
  const bytes = Buffer.from(note);
  if (bytes.length <= longestNote) return note;
  // Cut in the middle of a character, its rest becomes a replacement character of three bytes.
  return `${bytes.subarray(0, longestNote - 6).toString('utf8')}...`;
}
