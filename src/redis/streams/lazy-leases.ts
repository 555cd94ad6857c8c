/** The leases of a PubSub, on a connection of their own that is opened when the first one is asked for. */

import type { BatchLeaseProvider } from '../../contracts/lease-provider.ts';
import type { Clock } from '../../core/clock.ts';
import { SignalsError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { withLimit } from '../../core/waits.ts';
import type { RedisClient, RedisConnector } from '../connection.ts';
import type { RedisKeys } from '../keys.ts';
import { RedisLeaseProvider } from '../leases.ts';

interface Opened {
  readonly client: RedisClient;
  readonly provider: BatchLeaseProvider;
  /** Settles with the first connection; later ones are the client's business. */
  readonly connected: Promise<unknown>;
}

export class LazyLeases {
  readonly #connector: RedisConnector;
  readonly #keys: RedisKeys;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #logger: Logger;
  #opened: Opened | undefined;
  #closed = false;

  constructor(connector: RedisConnector, keys: RedisKeys, clock: Clock, limitMs: number, logger: Logger) {
    this.#connector = connector;
    this.#keys = keys;
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#logger = logger;
  }

  /** Rejects with `SIG_STORE_UNAVAILABLE`: an unreachable store is never "acquired". */
  async use<T>(work: (provider: BatchLeaseProvider) => Promise<T>): Promise<T> {
    if (this.#closed) throw new SignalsError('SIG_STORE_UNAVAILABLE', 'this PubSub is closed');
    this.#opened ??= this.#open();
    const { client, connected, provider } = this.#opened;
    if (client.status !== 'ready') await withLimit(this.#clock, this.#limitMs, 'connecting for leases', connected);
    return work(provider);
  }

  close(): void {
    this.#closed = true;
    this.#opened?.client.disconnect();
  }

  #open(): Opened {
    const client = this.#connector.open('commands');
    // A first attempt that fails is not the end: the client tries again, and the next call finds it ready or not.
    const connected = client.connect().catch(() => {});
    return { client, connected, provider: new RedisLeaseProvider(client, this.#keys, { logger: this.#logger }) };
  }
}
