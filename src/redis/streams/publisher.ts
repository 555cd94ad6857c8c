/**
 * Appends events. Publishes of one tick share a round trip. While the connection is down they wait in a queue of our
 * own, bounded by count and by age, so that callers are told in time and memory stays bounded however long Redis is away.
 *
 * An append whose reply was lost is sent again with the same event id: at least once.
 */

import type { Clock, Timer } from '../../core/clock.ts';
import { SignalsError } from '../../core/errors.ts';
import { storeError } from '../connection.ts';
import type { Script, ScriptCall } from '../script-runner.ts';
import { runScript } from '../script-runner.ts';
import { isTransient } from '../failures.ts';
import type { MainConnection } from './main-connection.ts';
import type { StreamsSettings } from './options.ts';

interface Append {
  readonly key: string;
  readonly fields: readonly string[];
  readonly deadlineMs: number;
  /** Grows in the order of the calls, which is kept over failed tries. */
  readonly turn: number;
  resolve(): void;
  reject(error: SignalsError): void;
}

/** Appends sent in one pipeline: enough to make the round trip cheap, few enough not to hold up the socket. */
const maxBatch = 256;
const retryDelayMs = 50;

export class StreamPublisher {
  readonly #connection: MainConnection;
  readonly #settings: StreamsSettings;
  readonly #clock: Clock;
  readonly #script: Script;
  /** Not sent yet, in order. */
  #waiting: Append[] = [];
  readonly #sent = new Set<Append>();
  #idle: (() => void)[] = [];
  #turn = 0;
  #scheduled = false;
  #expiry: Timer | undefined;
  #retry: Timer | undefined;
  #closed = false;

  constructor(connection: MainConnection, settings: StreamsSettings, clock: Clock, script: Script) {
    this.#connection = connection;
    this.#settings = settings;
    this.#clock = clock;
    this.#script = script;
    connection.onReady(() => this.#schedule());
  }

  /** Rejects with `SIG_STORE_UNAVAILABLE` when the event could not be stored within `commandTimeoutMs`. */
  append(key: string, fields: readonly string[]): Promise<void> {
    const refusal = this.#refusal();
    if (refusal) return Promise.reject(refusal);
    return new Promise<void>((resolve, reject) => {
      const deadlineMs = this.#clock.monotonicMs() + this.#settings.commandTimeoutMs;
      this.#waiting.push({ key, fields, deadlineMs, turn: this.#turn++, resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when every append so far has been confirmed or refused. */
  flush(): Promise<void> {
    if (this.#waiting.length + this.#sent.size === 0) return Promise.resolve();
    return new Promise(resolve => void this.#idle.push(resolve));
  }

  close(): void {
    this.#closed = true;
    this.#expiry?.cancel();
    this.#retry?.cancel();
    const refused = new SignalsError('SIG_STORE_UNAVAILABLE', 'closed before the event was stored');
    for (const append of [...this.#waiting.splice(0), ...this.#sent]) append.reject(refused);
    this.#sent.clear();
    this.#tellIdle();
  }

  #refusal(): SignalsError | undefined {
    if (this.#closed) return new SignalsError('SIG_STORE_UNAVAILABLE', 'this PubSub is closed');
    if (this.#connection.ready) return undefined;
    if (this.#connection.downForMs > this.#settings.commandTimeoutMs) {
      return new SignalsError('SIG_STORE_UNAVAILABLE', `Redis has been away for ${Math.round(this.#connection.downForMs)} ms`);
    }
    if (this.#waiting.length < this.#settings.maxQueuedPublishes) return undefined;
    return new SignalsError('SIG_STORE_UNAVAILABLE', `${this.#waiting.length} publishes are waiting for Redis already`);
  }

  #schedule(): void {
    if (this.#scheduled || this.#closed || this.#waiting.length === 0) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#send();
    });
  }

  #send(): void {
    this.#connection.start();
    this.#armExpiry();
    while (this.#connection.ready && this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, maxBatch);
      for (const append of batch) this.#sent.add(append);
      void this.#sendBatch(batch);
    }
  }

  async #sendBatch(batch: readonly Append[]): Promise<void> {
    const { client } = this.#connection;
    if ('slots' in client || batch.length === 1) {
      await Promise.all(batch.map(async append => this.#settle(append, await this.#sendOne(append))));
      return this.#tellIdle();
    }
    const pipeline = client.pipeline();
    for (const append of batch) {
      if (this.#settings.streamIdleTtlMs > 0) {
        const { script, keys, args } = this.#call(append);
        pipeline.evalsha(script.sha, keys.length, ...keys, ...args);
      } else {
        pipeline.xadd(append.key, ...this.#arguments(append));
      }
    }
    const replies = await pipeline.exec().catch((error: unknown) => error as Error);
    const again: Append[] = [];
    for (const [at, append] of batch.entries()) {
      const error = Array.isArray(replies) ? replies[at]?.[0] : (replies ?? new Error('the pipeline gave no reply'));
      if (error?.message.startsWith('NOSCRIPT')) again.push(append);
      else this.#settle(append, error ?? undefined);
    }
    for (const append of again) this.#settle(append, await this.#sendOne(append));
    this.#tellIdle();
  }

  async #sendOne(append: Append): Promise<Error | undefined> {
    try {
      if (this.#settings.streamIdleTtlMs > 0) await runScript(this.#connection.client, this.#call(append));
      else await this.#connection.client.xadd(append.key, ...this.#arguments(append));
      return undefined;
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }

  #settle(append: Append, error: Error | undefined): void {
    if (!this.#sent.delete(append)) return;
    if (!error) return append.resolve();
    if (isTransient(error) && !this.#closed && this.#clock.monotonicMs() < append.deadlineMs) {
      this.#waitAgain(append);
      this.#retry ??= this.#clock.after(retryDelayMs, () => {
        this.#retry = undefined;
        this.#schedule();
      });
      return;
    }
    append.reject(storeError('publish', error));
  }

  /** Back to its place in the order: the appends of a failed batch come back one by one. */
  #waitAgain(append: Append): void {
    const later = this.#waiting.findIndex(other => other.turn > append.turn);
    this.#waiting.splice(later < 0 ? this.#waiting.length : later, 0, append);
  }

  #call(append: Append): ScriptCall {
    const args = [this.#settings.streamIdleTtlMs, this.#settings.maxStreamLength, ...append.fields];
    return { script: this.#script, keys: [append.key], args };
  }

  #arguments(append: Append): [string, ...string[]] {
    const { maxStreamLength } = this.#settings;
    if (maxStreamLength === 0) return ['*', ...append.fields];
    return ['MAXLEN', '~', String(maxStreamLength), '*', ...append.fields];
  }

  #armExpiry(): void {
    const oldest = this.#oldest();
    if (this.#expiry || !oldest || this.#closed) return;
    const delayMs = Math.max(1, oldest.deadlineMs - this.#clock.monotonicMs());
    this.#expiry = this.#clock.after(delayMs, () => {
      this.#expiry = undefined;
      this.#expire();
      this.#armExpiry();
    });
  }

  #oldest(): Append | undefined {
    for (const append of this.#sent) return append;
    return this.#waiting[0];
  }

  #expire(): void {
    const nowMs = this.#clock.monotonicMs();
    const late = (append: Append) => append.deadlineMs <= nowMs;
    const error = new SignalsError('SIG_STORE_UNAVAILABLE', `Redis did not confirm within ${this.#settings.commandTimeoutMs} ms`);
    const silent = [...this.#sent].filter(late);
    for (const append of silent) this.#sent.delete(append);
    for (const append of [...silent, ...this.#waiting.filter(late)]) append.reject(error);
    this.#waiting = this.#waiting.filter(append => !late(append));
    // A connection that took a command and says nothing for this long is dead, whatever the socket thinks.
    if (silent.length > 0) this.#connection.reset();
    this.#tellIdle();
  }

  #tellIdle(): void {
    if (this.#waiting.length + this.#sent.size > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}
