/** The connection for everything but reading: appends, groups, nacks, reclaiming. One per instance (in a Cluster, per node). */

import { elapsedMs, instant } from '../../core/clock.ts';
import type { Clock, Instant } from '../../core/clock.ts';
import { SignalsError } from '../../core/errors.ts';
import { withLimit } from '../../core/waits.ts';
import { storeError } from '../connection.ts';
import type { RedisClient, RedisConnector } from '../connection.ts';

export class MainConnection {
  readonly client: RedisClient;
  readonly #clock: Clock;
  readonly #commandTimeoutMs: number;
  #downSince: Instant;
  #started = false;
  #closed = false;
  #waiters: ((error?: SignalsError) => void)[] = [];
  readonly #listeners: (() => void)[] = [];

  constructor(connector: RedisConnector, clock: Clock, commandTimeoutMs: number) {
    this.#clock = clock;
    this.#commandTimeoutMs = commandTimeoutMs;
    this.#downSince = instant(clock);
    // The limits are ours (see `StreamPublisher`): ioredis would keep a queue without a bound on its age.
    this.client = connector.open('publisher', {
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      commandTimeout: undefined,
    });
    this.client.on('ready', () => this.#becameReady());
    this.client.on('close', () => void (this.#downSince = instant(clock)));
  }

  get ready(): boolean {
    return this.client.status === 'ready';
  }

  get downForMs(): number {
    return this.ready ? 0 : elapsedMs(this.#clock, this.#downSince);
  }

  onReady(listener: () => void): void {
    this.#listeners.push(listener);
  }

  start(): void {
    if (this.#started || this.#closed) return;
    this.#started = true;
    this.#downSince = instant(this.#clock);
    // A first attempt that fails is retried by the client; who needs the connection waits with a limit.
    this.client.connect().catch(() => {});
  }

  /** Runs `command` once there is a connection. Rejects with `SIG_STORE_UNAVAILABLE` past `commandTimeoutMs`. */
  async run<T>(what: string, command: (client: RedisClient) => Promise<T>): Promise<T> {
    return withLimit(
      this.#clock,
      this.#commandTimeoutMs,
      what,
      this.#whenReady().then(() => command(this.client)),
    ).catch((error: unknown) => {
      throw storeError(what, error);
    });
  }

  /** Drops the sockets and connects again. */
  reset(): void {
    if (this.#closed) return;
    if ('slots' in this.client) for (const node of this.client.nodes('all')) node.disconnect(true);
    else this.client.disconnect(true);
  }

  close(): void {
    this.#closed = true;
    this.client.disconnect();
    const error = new SignalsError('SIG_STORE_UNAVAILABLE', 'this PubSub is closed');
    for (const tell of this.#waiters.splice(0)) tell(error);
  }

  #whenReady(): Promise<void> {
    if (this.#closed) return Promise.reject(new SignalsError('SIG_STORE_UNAVAILABLE', 'this PubSub is closed'));
    if (this.ready) return Promise.resolve();
    this.start();
    return new Promise((resolve, reject) => {
      this.#waiters.push(error => (error ? reject(error) : resolve()));
    });
  }

  #becameReady(): void {
    for (const tell of this.#waiters.splice(0)) tell();
    for (const listener of this.#listeners) listener();
  }
}
