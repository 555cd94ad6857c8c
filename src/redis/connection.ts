/**
 * How we connect: one description of the server (standalone, Sentinel, Cluster or a client of the user's), from which
 * every connection of every role is made.
 */

import { Cluster, Redis } from 'ioredis';
import type { ClusterNode, ClusterOptions, RedisOptions } from 'ioredis';

import { backoffMs } from '../core/backoff.ts';
import { errorMessage, invalidOption, SignalsError } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { ConnectionTelemetry } from './connection-telemetry.ts';

export type RedisClient = Redis | Cluster;

export interface RedisSource {
  /** `redis://` or `rediss://`. Default `redis://localhost:6379`. */
  url?: string;
  /** ioredis options; with `sentinels` and `name` for Sentinel. */
  redisOptions?: RedisOptions;
  cluster?: { nodes: ClusterNode[]; options?: ClusterOptions };
  /** Connections are duplicated from it; it is never used or closed itself. */
  client?: RedisClient;
}

/**
 * - `commands`: leases and mailbox. No offline queue: a command that can't be sent now fails now, since a lease that is
 *   asked for later than the caller thinks is worse than none.
 * - `publisher`: short outages are bridged by a bounded queue.
 * - `reader`, `subscriber`: wait for as long as it takes.
 *
 * A connection that was asked and says nothing for `commandTimeoutMs` is dead, whatever its socket thinks: the first two are
 * then made anew. Those that listen are watched by who uses them (`AnswerWatch`).
 */
export type ConnectionRole = 'commands' | 'publisher' | 'reader' | 'subscriber';

export interface ConnectorOptions {
  logger?: Logger;
  /** Longest wait for one reply, ms. */
  commandTimeoutMs?: number;
}

const roleOptions: Record<ConnectionRole, (commandTimeoutMs: number) => RedisOptions> = {
  commands: commandTimeoutMs => ({
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: commandTimeoutMs,
    socketTimeout: commandTimeoutMs,
  }),
  publisher: commandTimeoutMs => ({ maxRetriesPerRequest: 3, commandTimeout: commandTimeoutMs, socketTimeout: commandTimeoutMs }),
  reader: () => ({ maxRetriesPerRequest: null }),
  subscriber: () => ({
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    autoResubscribe: false,
  }),
};

export class RedisConnector {
  readonly kind: 'standalone' | 'sentinel' | 'cluster';
  readonly #source: RedisSource;
  readonly #logger: Logger;
  readonly #commandTimeoutMs: number;
  readonly #telemetry = new ConnectionTelemetry();

  /** Throws `SIG_OPTION_INVALID` when the source is ambiguous or its URL is none. */
  constructor(source: RedisSource, options: ConnectorOptions = {}) {
    this.#source = checkedSource(source);
    this.#logger = options.logger ?? silentLogger;
    this.#commandTimeoutMs = options.commandTimeoutMs ?? 5000;
    this.kind = kindOf(source);
  }

  /** A new, unconnected client. The caller owns it: `connect` it and `disconnect` it. */
  open(role: ConnectionRole, overrides: RedisOptions = {}): RedisClient {
    const client = this.#create(role, overrides);
    if (client instanceof Cluster) client.on('+node', guardAsking);
    this.#watch(client, role);
    return client;
  }

  /** The same to one node of a Cluster. */
  openAt(node: Redis, role: ConnectionRole, overrides: RedisOptions = {}): Redis {
    const client = new Redis({ ...node.options, ...this.#options(role, overrides), readOnly: false });
    this.#watch(client, role);
    return client;
  }

  #watch(client: RedisClient, role: ConnectionRole): void {
    const seen = new Set<string>();
    client.on('error', (error: unknown) => {
      const message = errorMessage(error);
      if (seen.size < 100 && !seen.has(message)) this.#logger.warn('redis connection failed', { role, error: message });
      seen.add(message);
    });
    client.on('ready', () => seen.clear());
    this.#telemetry.watch(client, role);
  }

  #options(role: ConnectionRole, overrides: RedisOptions): RedisOptions {
    return {
      lazyConnect: true,
      connectTimeout: 5000,
      keepAlive: 5000,
      retryStrategy: attempt => backoffMs(attempt, 50, 2000),
      reconnectOnError: error => error.message.startsWith('READONLY'),
      connectionName: `signals-runtime-${role}`,
      ...roleOptions[role](this.#commandTimeoutMs),
      ...overrides,
    };
  }

  #create(role: ConnectionRole, overrides: RedisOptions): RedisClient {
    const options = this.#options(role, overrides);
    const { client, cluster, redisOptions, url } = this.#source;
    if (client instanceof Cluster) return client.duplicate([], { ...clusterOptions(options), lazyConnect: true });
    if (client) return client.duplicate(options);
    if (cluster) return new Cluster(cluster.nodes, { ...clusterOptions(options), ...cluster.options });
    if (redisOptions) return url ? new Redis(url, { ...redisOptions, ...options }) : new Redis({ ...redisOptions, ...options });
    return new Redis(url ?? 'redis://localhost:6379', options);
  }
}

function clusterOptions(options: RedisOptions): ClusterOptions {
  const { retryStrategy, enableOfflineQueue, lazyConnect, ...redisOptions } = options;
  return {
    lazyConnect: lazyConnect ?? true,
    enableOfflineQueue: enableOfflineQueue ?? true,
    clusterRetryStrategy: attempt => retryStrategy?.(attempt) ?? 1000,
    redisOptions,
  };
}

/**
 * ioredis sends ASKING ahead of a command that a slot's move redirects, and looks at its outcome nowhere: when that
 * connection closes first, the rejection is nobody's and would end the process. The command itself fails as well.
 */
function guardAsking(node: Redis): void {
  const asking = node.asking.bind(node);
  node.asking = callback => {
    const reply = asking(callback);
    reply.catch(() => {});
    return reply;
  };
}

function kindOf(source: RedisSource): 'standalone' | 'sentinel' | 'cluster' {
  if (source.cluster || source.client instanceof Cluster) return 'cluster';
  const options = source.client?.options ?? source.redisOptions;
  return options && 'sentinels' in options && options.sentinels ? 'sentinel' : 'standalone';
}

function checkedSource(source: RedisSource): RedisSource {
  const given = [
    source.client && 'client',
    source.cluster && 'cluster',
    (source.url ?? source.redisOptions) && 'url/redisOptions',
  ].filter(Boolean);
  if (given.length > 1) {
    throw new SignalsError('SIG_OPTION_INVALID', `give one Redis source only, got ${given.join(' and ')}`);
  }
  if (source.url !== undefined) checkUrl(source.url);
  return source;
}

function checkUrl(url: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed && ['redis:', 'rediss:'].includes(parsed.protocol) && parsed.hostname) return;
  throw invalidOption('url', maskUrl(url), 'redis://host:port or rediss://host:port');
}

/** The URL without its user, password and query. */
export function maskUrl(url: string): string {
  if (!URL.canParse(url)) return url.replace(/\/\/[^@/]*@/, '//***@').replace(/\?.*$/, '?***');
  const parsed = new URL(url);
  const credentials = parsed.username || parsed.password ? '***@' : '';
  return `${parsed.protocol}//${credentials}${parsed.host}${parsed.pathname}${parsed.search ? '?***' : ''}`;
}

/**
 * A Redis failure as ours. Replies of the server other than "not now" are bugs or misconfiguration and keep their own
 * text; everything else means that the store could not be asked.
 */
export function storeError(what: string, error: unknown): SignalsError {
  if (error instanceof SignalsError) return error;
  return new SignalsError('SIG_STORE_UNAVAILABLE', `${what} failed: ${errorMessage(error)}`, { cause: error });
}
