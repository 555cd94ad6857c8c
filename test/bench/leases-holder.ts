/** A process that holds leases, ours or the original's way, for `leases.ts`. */

import { createClient } from 'redis';

import type { BatchLeaseProvider, HeldKey } from '../../src/contracts/lease-provider.ts';
import { systemClock } from '../../src/core/clock.ts';
import { acquire } from '../../src/leases/acquire.ts';
import { LeaseKeeper } from '../../src/leases/lease-keeper.ts';
import { RedisConnector } from '../../src/redis/connection.ts';
import type { RedisClient } from '../../src/redis/connection.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';

export type Request =
  | { ask: 'hold'; keys: string[] }
  | { ask: 'mark' | 'usage' | 'lateness' | 'close' }
  | { ask: 'ceiling'; keys: string[]; forMs: number }
  | { ask: 'contend'; key: string; times: number; url: string };

export interface Usage {
  cpuUs: number;
  renewals: number;
}

export const ttlMs = 15_000;
export const renewIntervalMs = 5000;
/** Our renewals are spread by so much on purpose; what comes within it is not late. */
const jitter = 0.1;

interface Side {
  open(url: string): Promise<void>;
  hold(keys: readonly string[]): Promise<void>;
  /** Renews all of `keys` over and over. Answers how many renewals were made. */
  renewFor(keys: readonly string[], forMs: number): Promise<number>;
  acquire(key: string, owner: string): Promise<boolean>;
  close(): void;
}

const owner = 'bench-pod-1/0f8fad5b-d9cb-469f-a165-70867728950e';
let renewals = 0;
let recording = false;
const lateMs: number[] = [];

function note(askedCount: number): void {
  renewals += askedCount;
}

class OurSide implements Side {
  #client: RedisClient | undefined;
  #provider: RedisLeaseProvider | undefined;
  #keeper: LeaseKeeper | undefined;
  readonly #lastAskedMs = new Map<string, number>();

  async open(url: string): Promise<void> {
    this.#client = new RedisConnector({ url }).open('commands');
    await this.#client.connect();
    this.#provider = new RedisLeaseProvider(this.#client, new RedisKeys());
  }

  get provider(): RedisLeaseProvider {
    if (!this.#provider) throw new Error('not open');
    return this.#provider;
  }

  async hold(keys: readonly string[]): Promise<void> {
    const driftMs = ttlMs / 100 + 500;
    this.#keeper = new LeaseKeeper({ provider: this.#counting(), settings: () => ({ ttlMs, renewIntervalMs, driftMs }) });
    for (const part of parts(keys, 200)) {
      const grants = await Promise.all(part.map(key => acquire(this.provider, key, owner, ttlMs, systemClock)));
      for (const grant of grants) if (grant) this.#keeper.hold(grant);
    }
  }

  async renewFor(keys: readonly string[], forMs: number): Promise<number> {
    const batches = parts(keys, 500).map(part => part.map(key => ({ key, owner })));
    return await repeatedly(4, forMs, async at => {
      const batch = batches[at % batches.length] ?? [];
      return (await this.provider.renewLeases(batch, ttlMs)).length;
    });
  }

  async acquire(key: string, who: string): Promise<boolean> {
    return (await this.provider.acquireLease(key, who, ttlMs)).acquired;
  }

  close(): void {
    this.#keeper?.close();
    this.#client?.disconnect();
  }

  #counting(): BatchLeaseProvider {
    const { provider } = this;
    return {
      acquireLease: (key, who, ttl) => provider.acquireLease(key, who, ttl),
      getLeaseOwner: key => provider.getLeaseOwner(key),
      releaseLease: (key, who) => provider.releaseLease(key, who),
      renewLease: (key, who, ttl) => provider.renewLease(key, who, ttl),
      transferLease: (key, from, to, ttl) => provider.transferLease(key, from, to, ttl),
      renewLeases: (leases, ttl) => {
        note(leases.length);
        if (recording) this.#noteLateness(leases);
        return provider.renewLeases(leases, ttl);
      },
    };
  }

  #noteLateness(leases: readonly HeldKey[]): void {
    const nowMs = performance.now();
    for (const { key } of leases) {
      const last = this.#lastAskedMs.get(key);
      if (last !== undefined) lateMs.push(Math.max(0, nowMs - last - renewIntervalMs * (1 + jitter)));
      this.#lastAskedMs.set(key, nowMs);
    }
  }
}

const renewScript = `
      if redis.call("GET", KEYS[1]) == ARGV[1] then
        return redis.call("PEXPIRE", KEYS[1], ARGV[2])
      else
        return 0
      end
    `;
const refreshScript = `
      if redis.call("GET", KEYS[1]) == ARGV[1] then
        redis.call("PEXPIRE", KEYS[1], ARGV[2])
        return 1
      end
      return 0
    `;

/** A timer and an EVAL with its text for each lease; an acquire that asks three times when it is refused. */
class TheirSide implements Side {
  #client: ReturnType<typeof createClient> | undefined;
  readonly #timers: NodeJS.Timeout[] = [];

  async open(url: string): Promise<void> {
    this.#client = createClient({ url });
    this.#client.on('error', () => {});
    await this.#client.connect();
  }

  get client(): ReturnType<typeof createClient> {
    if (!this.#client) throw new Error('not open');
    return this.#client;
  }

  async hold(keys: readonly string[]): Promise<void> {
    const startMs = performance.now();
    for (const part of parts(keys, 200)) await Promise.all(part.map(key => this.acquire(key, owner)));
    for (const [at, key] of keys.entries()) {
      // Spread as they would be when threads start one after the other.
      const firstMs = startMs + renewIntervalMs * (1 + at / keys.length);
      const begin = setTimeout(() => this.#renewEvery(key, firstMs), firstMs - performance.now());
      this.#timers.push(begin);
    }
  }

  async renewFor(keys: readonly string[], forMs: number): Promise<number> {
    return await repeatedly(1000, forMs, async at => {
      await this.#renew(keys[at % keys.length] ?? '');
      return 1;
    });
  }

  async acquire(key: string, who: string): Promise<boolean> {
    const name = leaseName(key);
    if ((await this.client.set(name, who, { NX: true, PX: ttlMs })) === 'OK') return true;
    const refreshed = await this.client.eval(refreshScript, { keys: [name], arguments: [who, String(ttlMs)] });
    if (refreshed === 1) return true;
    await this.client.get(name);
    return false;
  }

  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#client?.destroy();
  }

  #renewEvery(key: string, firstMs: number): void {
    let dueMs = firstMs;
    const renew = () => {
      note(1);
      if (recording) lateMs.push(Math.max(0, performance.now() - dueMs));
      dueMs += renewIntervalMs;
      this.#renew(key).catch(() => {});
    };
    renew();
    this.#timers.push(setInterval(renew, renewIntervalMs));
  }

  async #renew(key: string): Promise<boolean> {
    return (await this.client.eval(renewScript, { keys: [leaseName(key)], arguments: [owner, String(ttlMs)] })) === 1;
  }
}

function leaseName(key: string): string {
  return `mastra:topic:lease:${key}`;
}

function parts<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) => items.slice(at * size, (at + 1) * size));
}

/** Keeps `width` calls going at once. Answers the sum of what they answered. */
async function repeatedly(width: number, forMs: number, call: (at: number) => Promise<number>): Promise<number> {
  const untilMs = performance.now() + forMs;
  let at = 0;
  let sum = 0;
  const loop = async () => {
    while (performance.now() < untilMs) {
      const made = await call(at++);
      sum += made; // not in one: the others add to it while this one waits
    }
  };
  await Promise.all(Array.from({ length: width }, loop));
  return sum;
}

const makeSide = (kind: string | undefined): Side => (kind === 'ours' ? new OurSide() : new TheirSide());

async function answerTo(request: Request, side: Side): Promise<unknown> {
  switch (request.ask) {
    case 'hold':
      await side.hold(request.keys);
      break;
    case 'mark':
      renewals = 0;
      marked = process.cpuUsage();
      break;
    case 'usage': {
      const { user, system } = process.cpuUsage(marked);
      recording = true;
      return { cpuUs: user + system, renewals } satisfies Usage;
    }
    case 'lateness':
      return lateMs.splice(0);
    case 'ceiling': {
      const startMs = performance.now();
      const made = await side.renewFor(request.keys, request.forMs);
      return (made * 1000) / (performance.now() - startMs);
    }
    case 'contend':
      return await contend(request);
    case 'close':
      side.close();
      process.disconnect();
      break;
  }
  return null;
}

let marked = process.cpuUsage();

async function contend({ key, times, url }: Extract<Request, { ask: 'contend' }>): Promise<number[]> {
  const side = makeSide(process.argv[2]);
  await side.open(url);
  const tookUs: number[] = [];
  for (let time = 0; time < times + 20; time++) {
    const startMs = performance.now();
    if (await side.acquire(key, 'another-pod/run')) throw new Error('was to be refused');
    if (time >= 20) tookUs.push((performance.now() - startMs) * 1000);
  }
  side.close();
  return tookUs;
}

if (process.send) {
  const side = makeSide(process.argv[2]);
  await side.open(process.argv[3] ?? '');
  process.on('message', (request: Request) => {
    void answerTo(request, side).then(answer => process.connected && process.send?.({ answer }));
  });
  process.send({ answer: 'open' });
}
