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
import { ReplicatedScripts } from './replicated-scripts.ts';
import { ShardedChannels } from './sharded-channels.ts';
import { checkStore } from './store-check.ts';

export interface RedisBackendOptions {
  source: RedisSource;
  keyPrefix: string;
  limits: MailboxLimits;
  /** Replicas that must have a signal or a lease before it counts. Default 0: the primary's word is enough. */
  replicaAcks?: number;
  clock?: Clock;
  logger?: Logger;
}

export class RedisBackend {
  readonly leases: RedisLeaseProvider;
  readonly mailbox: RedisMailbox;
  readonly operations: RedisMailboxOperations;
  readonly #commands: RedisClient;
  readonly #channels: ShardedChannels;
  /** Where writes wait for replicas: `WAIT` holds up whatever comes behind it on its connection. */
  readonly #confirmed: RedisClient | undefined;
  readonly #replicaAcks: number;
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
    this.#channels = new ShardedChannels({ connector, client: this.#commands, clock: this.#clock, logger: this.#logger });
    this.#replicaAcks = options.replicaAcks ?? 0;
    const replicaAcks = this.#replicaAcks;
    this.#confirmed = replicaAcks > 0 ? connector.open('commands') : undefined;
    this.leases = new RedisLeaseProvider(this.#confirmed ?? this.#commands, keys, { replicaAcks, logger: this.#logger });
    this.operations = new RedisMailboxOperations(this.#commands, keys, this.#clock);
    this.mailbox = new RedisMailbox({
      commands: this.#commands,
      channels: this.#channels,
      keys,
      limits: options.limits,
      ...(this.#confirmed ? { replicated: new ReplicatedScripts(this.#confirmed, { replicaAcks }) } : {}),
      clock: this.#clock,
    });
  }

  /** Whether a command sent now has a chance. */
  get reachable(): boolean {
    return this.#commands.status === 'ready';
  }

  /**
   * Resolves when what commands go over stands and the data is known to be ours; tries for as long as that takes. Throws
   * `SIG_STORE_INCOMPATIBLE` when it never will be.
   */
  async connect(): Promise<void> {
    await Promise.all(this.#clients.map(client => this.#ready(client)));
    for (let attempt = 1; !this.#closing.signal.aborted; attempt++) {
      try {
        await this.mailbox.prepare();
        // What it finds is said in the log, one line each; none of it stops a start.
        return void (await checkStore(this.#commands, { replicaAcks: this.#replicaAcks, logger: this.#logger }));
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
    this.#channels.close();
    const open = this.#clients.filter(client => client.status === 'ready');
    const quit = Promise.all(open.map(client => client.quit()));
    await settledWithin(this.#clock, limitMs, quit);
    for (const client of this.#clients) client.disconnect();
  }

  get #clients(): RedisClient[] {
    return [this.#commands, ...(this.#confirmed ? [this.#confirmed] : [])];
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
