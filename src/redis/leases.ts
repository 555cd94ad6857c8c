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

/** Leases per script: some 0.5 ms of the server's time, which nobody else has to wait for longer. */
const maxLeasesPerScript = 500;

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

  /** One script for up to 500 leases that may share one: all of them on one server, those of a slot in a Cluster. */
  async renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<(boolean | Error)[]> {
    const answers: (boolean | Error)[] = leases.map(() => true);
    const batches = this.#batches(leases);
    const calls = batches.map(positions => this.#renewal(positions.map(at => leases[at] as HeldKey), checkedTtlMs(ttlMs)));
    const replies = await this.#runAll(calls);
    for (const [batch, positions] of batches.entries()) {
      const answer = replies[batch] ?? new Error('no reply');
      if (answer instanceof Error || !answer.replicated) {
        const error = answer instanceof Error ? storeError('renewing leases', answer) : notReplicated('renewing leases');
        for (const at of positions) answers[at] = error;
      }
      // "No" needs no replica: the owner must stop.
      if (!(answer instanceof Error)) for (const at of answer.reply as number[]) answers[positions[at - 1] as number] = false;
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
