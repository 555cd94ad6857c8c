/** Everything that an instance has open on Redis: one connection for leases and mailbox, one for hints. */

import type { MailboxLimits } from '../contracts/thread-mailbox.ts';
import { backoffMs } from '../core/backoff.ts';
import { systemClock } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';
import { errorMessage, isSignalsError } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { aborted, settledWithin, sleep } from '../core/waits.ts';
import { RedisConnector } from './connection.ts';
import type { RedisClient, RedisSource } from './connection.ts';
import { RedisKeys } from './keys.ts';
import { RedisLeaseProvider } from './leases.ts';
import { RedisMailbox } from './mailbox.ts';
import { RedisMailboxOperations } from './mailbox-operations.ts';

export interface RedisBackendOptions {
  source: RedisSource;
  keyPrefix: string;
  limits: MailboxLimits;
  clock?: Clock;
  logger?: Logger;
}

export class RedisBackend {
  readonly leases: RedisLeaseProvider;
  readonly mailbox: RedisMailbox;
  readonly operations: RedisMailboxOperations;
  readonly #commands: RedisClient;
  readonly #subscriber: RedisClient;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #closing = new AbortController();

  /** Connects nothing yet. Throws `SIG_OPTION_INVALID` when the source is not one. */
  constructor(options: RedisBackendOptions) {
    this.#clock = options.clock ?? systemClock;
    this.#logger = options.logger ?? silentLogger;
    const connector = new RedisConnector(options.source, { logger: this.#logger });
    const keys = new RedisKeys(options.keyPrefix);
    this.#commands = connector.open('commands');
    this.#subscriber = connector.open('subscriber');
    this.leases = new RedisLeaseProvider(this.#commands, keys, { logger: this.#logger });
    this.operations = new RedisMailboxOperations(this.#commands, keys, this.#clock);
    this.mailbox = new RedisMailbox({
      commands: this.#commands,
      subscriber: this.#subscriber,
      keys,
      limits: options.limits,
      clock: this.#clock,
      logger: this.#logger,
    });
  }

  /** Whether a command sent now has a chance. */
  get reachable(): boolean {
    return this.#commands.status === 'ready';
  }

  /**
   * Resolves when both connections stand and the data is known to be ours; tries for as long as that takes. Throws
   * `SIG_STORE_INCOMPATIBLE` when it never will be.
   */
  async connect(): Promise<void> {
    await Promise.all([this.#ready(this.#commands), this.#ready(this.#subscriber)]);
    for (let attempt = 1; !this.#closing.signal.aborted; attempt++) {
      try {
        return await this.mailbox.prepare();
      } catch (error) {
        if (isSignalsError(error, 'SIG_STORE_INCOMPATIBLE')) throw error;
        this.#logger.warn('the store is not ready yet', { error: errorMessage(error) });
        await sleep(this.#clock, backoffMs(attempt, 100, 5000), this.#closing.signal);
      }
    }
  }

  /** Gives the server `limitMs` to take what was sent, then cuts the connections. */
  async close(limitMs: number): Promise<void> {
    this.#closing.abort();
    const open = [this.#commands, this.#subscriber].filter(client => client.status === 'ready');
    const quit = Promise.all(open.map(client => client.quit()));
    await settledWithin(this.#clock, limitMs, quit);
    this.#commands.disconnect();
    this.#subscriber.disconnect();
  }

  /** A first attempt that fails is not the last: the client goes on by itself, and its errors are logged. */
  async #ready(client: RedisClient): Promise<void> {
    if (client.status === 'ready') return;
    const closing = aborted(this.#closing.signal);
    // Not `events.once`: that gives up at the first `error`, and here every failed attempt is one.
    const ready = new Promise<void>(resolve => client.once('ready', () => resolve()));
    client.connect().catch(() => {});
    await Promise.race([ready, closing.promise]);
    closing.cancel();
  }
}
