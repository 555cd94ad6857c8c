/** Leases on Redis: each method one script and one round trip. What they promise: `src/leases/README.md`. */

import { Cluster } from 'ioredis';

import { checkedTtlMs } from '../contracts/lease-provider.ts';
import type { BatchLeaseProvider, HeldKey, LeaseAcquisition } from '../contracts/lease-provider.ts';
import { invalidOption } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { storeError } from './connection.ts';
import type { RedisClient } from './connection.ts';
import { hashTag } from './keys.ts';
import type { LeaseKeys, RedisKeys } from './keys.ts';
import { loadScript, runScript, runScripts } from './script-runner.ts';
import type { Script, ScriptArgument, ScriptCall } from './script-runner.ts';

/** Leases per script: some 0.5 ms of the server's time, which nobody else has to wait for longer. */
const maxLeasesPerScript = 500;

export interface RedisLeaseOptions {
  logger?: Logger;
}

/** The client must be one of role `commands`: a request that waits in a queue is one that is granted too late. */
export class RedisLeaseProvider implements BatchLeaseProvider {
  readonly #client: RedisClient;
  readonly #keys: RedisKeys;
  readonly #logger: Logger;
  readonly #acquire = loadScript('acquire-lease');
  readonly #renew = loadScript('renew-leases');
  readonly #release = loadScript('release-lease');
  readonly #transfer = loadScript('transfer-lease');

  /** The client stays the caller's. */
  constructor(client: RedisClient, keys: RedisKeys, options: RedisLeaseOptions = {}) {
    this.#client = client;
    this.#keys = keys;
    this.#logger = options.logger ?? silentLogger;
  }

  async acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    const { lease, token, fence } = this.#keysOf(key);
    const reply = await this.#run(this.#acquire, [lease, token, fence], [owner, checkedTtlMs(ttlMs)]);
    const [code, detail] = reply as [number, string];
    return code === 0 ? { acquired: false, owner: detail } : { acquired: true, owner, fencingToken: Number(detail) };
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
    const code = await this.#run(this.#release, [lease, token], [owner]);
    if (code !== 1) this.#logger.debug('a lease to release was not its owner\'s any more', { key, owner });
  }

  async renewLease(key: string, owner: string, ttlMs: number): Promise<boolean> {
    const { lease, token } = this.#keysOf(key);
    const lost = (await this.#run(this.#renew, [lease, token], [checkedTtlMs(ttlMs), owner])) as number[];
    return lost.length === 0;
  }

  async transferLease(key: string, fromOwner: string, toOwner: string, ttlMs: number): Promise<boolean> {
    const { lease, token, fence } = this.#keysOf(key);
    const args = [fromOwner, toOwner, checkedTtlMs(ttlMs)];
    return (await this.#run(this.#transfer, [lease, token, fence], args)) !== 0;
  }

  /** One script for up to 500 leases that may share one: all of them on one server, those of a slot in a Cluster. */
  async renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<(boolean | Error)[]> {
    const answers: (boolean | Error)[] = leases.map(() => true);
    const batches = this.#batches(leases);
    const calls = batches.map(positions => this.#renewal(positions.map(at => leases[at] as HeldKey), checkedTtlMs(ttlMs)));
    const replies = await this.#runAll(calls);
    for (const [batch, positions] of batches.entries()) {
      const reply = replies[batch];
      if (Array.isArray(reply)) for (const at of reply as number[]) answers[positions[at - 1] as number] = false;
      else for (const at of positions) answers[at] = storeError('renewing leases', reply);
    }
    return answers;
  }

  #renewal(leases: readonly HeldKey[], ttlMs: number): ScriptCall {
    const keys: string[] = [];
    const args: ScriptArgument[] = [ttlMs];
    for (const { key, owner } of leases) {
      const { lease, token } = this.#keysOf(key);
      keys.push(lease, token);
      args.push(owner);
    }
    return { script: this.#renew, keys, args };
  }

  /** Positions in `leases`, grouped by what one script may touch. */
  #batches(leases: readonly HeldKey[]): number[][] {
    const bySlot = new Map<string, number[]>();
    for (const [at, { key }] of leases.entries()) {
      const slot = this.#isCluster ? hashTag(this.#keys.lease(key).lease) : '';
      const positions = bySlot.get(slot);
      if (positions) positions.push(at);
      else bySlot.set(slot, [at]);
    }
    return [...bySlot.values()].flatMap(positions => chunks(positions, maxLeasesPerScript));
  }

  async #run(script: Script, keys: string[], args: ScriptArgument[]): Promise<unknown> {
    try {
      return await runScript(this.#client, { script, keys, args });
    } catch (error) {
      throw storeError(script.name, error);
    }
  }

  /** A reply or an error for each call. */
  async #runAll(calls: ScriptCall[]): Promise<unknown[]> {
    if (this.#isCluster) {
      return await Promise.all(calls.map(call => runScript(this.#client, call).catch((error: unknown) => error)));
    }
    return await runScripts(this.#client, calls).catch((error: unknown) => calls.map(() => error));
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

function chunks<T>(items: readonly T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let from = 0; from < items.length; from += size) parts.push(items.slice(from, from + size));
  return parts;
}
