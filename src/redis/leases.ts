/** Leases on Redis: each method one script and one round trip. What they promise: `src/leases/README.md`. */

import { Cluster } from 'ioredis';

import { checkedTtlMs } from '../contracts/lease-provider.ts';
import type { BatchLeaseProvider, HeldKey, LeaseAcquisition } from '../contracts/lease-provider.ts';
import { errorMessage, invalidOption, SignalsError } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { storeError } from './connection.ts';
import type { RedisClient } from './connection.ts';
import { hashTag } from './keys.ts';
import type { LeaseKeys, RedisKeys } from './keys.ts';
import { ReplicatedScripts } from './replicated-scripts.ts';
import type { ReplicatedReply, ReplicationOptions } from './replicated-scripts.ts';
import { loadScript, runScript, runScripts } from './script-runner.ts';
import type { Script, ScriptArgument, ScriptCall } from './script-runner.ts';

/**
 * A lease's token is renewed to many times its TTL, and only when few are left: it would cost as much as the lease itself. It
 * goes with its lease when that is released; otherwise it is left behind for as long, which does no harm: who takes the key
 * next puts a new token there.
 */
const tokenTtls = 16;
const leastTokenTtls = 4;

/** Leases per script: some 0.5 ms of the server's time, which nobody else has to wait for longer. */
const maxLeasesPerScript = 500;

/** What is known of a lease that is renewed again and again. */
interface Renewable {
  readonly keys: LeaseKeys;
  /** When its token ends at the earliest, on the monotonic clock. */
  tokenUntilMs: number;
}

interface Renewal {
  readonly positions: readonly number[];
  /** Those whose token is renewed along. */
  readonly refreshed: readonly Renewable[];
  readonly call: ScriptCall;
}

export interface RedisLeaseOptions extends ReplicationOptions {
  logger?: Logger;
}

/**
 * The client must be one of role `commands`: a request that waits in a queue is one that is granted too late.
 *
 * With `replicaAcks` (recommended with Sentinel and Cluster, where a primary that dies may take with it what its replicas had
 * not got yet), a lease that is not on so many replicas is given back and counts as not acquired, and a renewal or hand-over
 * that is not fails with `SIG_STORE_UNAVAILABLE`. Such a provider wants a connection of its own.
 */
export class RedisLeaseProvider implements BatchLeaseProvider {
  readonly #client: RedisClient;
  readonly #keys: RedisKeys;
  readonly #logger: Logger;
  readonly #scripts: ReplicatedScripts;
  readonly #replicated: boolean;
  readonly #renewables = new WeakMap<HeldKey, Renewable>();
  readonly #acquire = loadScript('acquire-lease');
  readonly #renew = loadScript('renew-leases');
  readonly #release = loadScript('release-lease');
  readonly #transfer = loadScript('transfer-lease');

  /** The client stays the caller's. */
  constructor(client: RedisClient, keys: RedisKeys, options: RedisLeaseOptions = {}) {
    this.#client = client;
    this.#keys = keys;
    this.#logger = options.logger ?? silentLogger;
    this.#scripts = new ReplicatedScripts(client, options);
    this.#replicated = (options.replicaAcks ?? 0) > 0;
  }

  async acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    const { lease, token, fence } = this.#keysOf(key);
    const { reply, replicated } = await this.#run(this.#acquire, [lease, token, fence], [owner, checkedTtlMs(ttlMs)]);
    const [code, detail] = reply as [number, string];
    if (code === 0) return { acquired: false, owner: detail };
    if (replicated) return { acquired: true, owner, fencingToken: Number(detail) };
    if (code === 2) throw notReplicated('refreshing a lease'); // it is the owner's still, who may be at work
    await this.releaseLease(key, owner);
    return { acquired: false };
  }

  async getLeaseOwner(key: string): Promise<string | undefined> {
    try {
      return (await this.#client.get(this.#keysOf(key).lease)) ?? undefined;
    } catch (error) {
      throw storeError('reading a lease', error);
    }
  }

  async releaseLease(key: string, owner: string): Promise<void> {
    const { lease, token } = this.#keysOf(key);
    try {
      const code = await runScript(this.#client, { script: this.#release, keys: [lease, token], args: [owner] });
      if (code !== 1) this.#logger.debug("a lease to release was not its owner's any more", { key, owner });
    } catch (error) {
      throw storeError('releasing a lease', error);
    }
  }

  async renewLease(key: string, owner: string, ttlMs: number): Promise<boolean> {
    const [answer] = await this.renewLeases([{ key, owner }], ttlMs);
    if (answer instanceof Error) throw answer;
    return answer ?? false;
  }

  async transferLease(key: string, fromOwner: string, toOwner: string, ttlMs: number): Promise<boolean> {
    const { lease, token, fence } = this.#keysOf(key);
    const args = [fromOwner, toOwner, checkedTtlMs(ttlMs)];
    const { reply, replicated } = await this.#run(this.#transfer, [lease, token, fence], args);
    if (reply !== 0 && !replicated) throw notReplicated('handing a lease over');
    return reply !== 0;
  }

  /**
   * One script for up to 500 leases that may share one: all of them on one server, those of a slot in a Cluster. Cheapest
   * when the same objects come again each time: what is known of them is not worked out anew.
   */
  async renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<(boolean | Error)[]> {
    const answers: (boolean | Error)[] = leases.map(() => true);
    const nowMs = performance.now();
    const batches = this.#batches(leases).map(positions => this.#renewal(leases, positions, checkedTtlMs(ttlMs), nowMs));
    const replies = await this.#runAll(batches.map(({ call }) => call));
    for (const [batch, { positions, refreshed }] of batches.entries()) {
      const answer = replies[batch] ?? new Error('no reply');
      if (answer instanceof Error || !answer.replicated) {
        const error = answer instanceof Error ? storeError('renewing leases', answer) : notReplicated('renewing leases');
        for (const at of positions) answers[at] = error;
      } else {
        for (const renewable of refreshed) renewable.tokenUntilMs = nowMs + ttlMs * tokenTtls;
      }
      // "No" needs no replica: the owner must stop.
      if (!(answer instanceof Error)) for (const at of answer.reply as number[]) answers[positions[at - 1] as number] = false;
    }
    return answers;
  }

  #renewal(leases: readonly HeldKey[], positions: readonly number[], ttlMs: number, nowMs: number): Renewal {
    const batch = positions.map(at => leases[at] as HeldKey);
    const renewables = batch.map(lease => this.#renewable(lease));
    const refreshed = renewables.filter(({ tokenUntilMs }) => tokenUntilMs - nowMs < ttlMs * leastTokenTtls);
    const keys = [...renewables.map(({ keys }) => keys.lease), ...refreshed.map(({ keys }) => keys.token)];
    const args = [batch.length, ttlMs, ttlMs * tokenTtls, ...batch.map(({ owner }) => owner)];
    return { positions, refreshed, call: { script: this.#renew, keys, args } };
  }

  #renewable(lease: HeldKey): Renewable {
    const known = this.#renewables.get(lease);
    if (known) return known;
    const renewable = { keys: this.#keysOf(lease.key), tokenUntilMs: -Infinity };
    this.#renewables.set(lease, renewable);
    return renewable;
  }

  /** Positions in `leases`, grouped by what one script may touch. */
  #batches(leases: readonly HeldKey[]): number[][] {
    const bySlot = new Map<string, number[]>();
    for (const [at, lease] of leases.entries()) {
      const slot = this.#isCluster ? hashTag(this.#renewable(lease).keys.lease) : '';
      const positions = bySlot.get(slot);
      if (positions) positions.push(at);
      else bySlot.set(slot, [at]);
    }
    return [...bySlot.values()].flatMap(positions => chunks(positions, maxLeasesPerScript));
  }

  async #run(script: Script, keys: string[], args: ScriptArgument[]): Promise<ReplicatedReply> {
    try {
      return await this.#scripts.run({ script, keys, args });
    } catch (error) {
      throw storeError(script.name, error);
    }
  }

  /** For each call a reply or an error. */
  async #runAll(calls: ScriptCall[]): Promise<(ReplicatedReply | Error)[]> {
    if (this.#replicated || this.#isCluster) {
      return await Promise.all(calls.map(call => this.#scripts.run(call).catch(asError)));
    }
    const replies = await runScripts(this.#client, calls).catch((error: unknown) => calls.map(() => error));
    return replies.map(reply => (reply instanceof Error ? reply : { reply, replicated: true }));
  }

  get #isCluster(): boolean {
    return this.#client instanceof Cluster;
  }

  /** In a Cluster a lease and its companions must be in one slot, which takes a key that has a hash tag, or no braces. */
  #keysOf(key: string): LeaseKeys {
    const keys = this.#keys.lease(key);
    if (this.#isCluster) {
      const tag = hashTag(keys.lease);
      if (hashTag(keys.token) !== tag || hashTag(keys.fence) !== tag) {
        throw invalidOption('lease key', key, 'without "}" in a Cluster unless it has a hash tag such as "{tag}"');
      }
    }
    return keys;
  }
}

function notReplicated(what: string): SignalsError {
  return new SignalsError('SIG_STORE_UNAVAILABLE', `${what} was not confirmed by enough replicas in time`);
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(errorMessage(error));
}

function chunks<T>(items: readonly T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let from = 0; from < items.length; from += size) parts.push(items.slice(from, from + size));
  return parts;
}
