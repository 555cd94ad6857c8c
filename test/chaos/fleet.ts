/** What is put under stress: pods in processes of their own, each with its own way to one Redis, and a Redis for the notes. */

import { join } from 'node:path';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';
import { sweepIntervalMs } from './names.ts';
import type { ChaosOptions } from './options.ts';

/** A restart must lose nothing that was acknowledged: what is promised is promised for as long as Redis keeps its data. */
const durable = ['appendonly yes', 'appendfsync always'];

/** Generous: on a busy machine a process takes its time, and Redis may be away meanwhile. */
const startLimitMs = 60_000;

export class Pod {
  readonly name: string;
  readonly proxy: TcpProxy;
  readonly #env: Record<string, string>;
  readonly #lives: RuntimeProcess[] = [];

  constructor(name: string, proxy: TcpProxy, env: Record<string, string>) {
    this.name = name;
    this.proxy = proxy;
    this.#env = { ...env, REDIS_URL: proxy.url };
  }

  get process(): RuntimeProcess {
    const last = this.#lives.at(-1);
    if (!last) throw new Error(`${this.name} was never started`);
    return last;
  }

  /** Resolves when the process runs; whether it is ready depends on the network it was given. */
  async start(): Promise<void> {
    this.#lives.push(await startRuntime({ name: this.name, env: this.#env, unready: true }));
  }

  async ready(): Promise<boolean> {
    const limit = AbortSignal.timeout(2000);
    return await fetch(`${this.process.url}/readyz`, { signal: limit }).then(response => response.ok, () => false);
  }

  async whenReady(): Promise<void> {
    await until(`${this.name} is ready`, () => {
      this.assertRunning();
      return this.ready();
    }, startLimitMs, 100);
  }

  /** Throws, with what it said last, when its process has gone by itself. */
  assertRunning(): void {
    const { process } = this;
    if (process.exitCode === undefined) return;
    throw new Error(`${this.name} exited with ${process.exitCode}: ${process.stderr()}${process.logs().slice(-20).join('\n')}`);
  }

  /** Log lines of all its lives. */
  logs(): string[] {
    return this.#lives.flatMap((life, at) => [...life.logs(), life.stderr()].map(line => `${this.name}#${at} ${line}`));
  }

  async destroy(): Promise<void> {
    await Promise.all(this.#lives.map(life => life.destroy()));
    await this.proxy.stop();
  }
}

export interface Fleet {
  readonly redis: RedisServer;
  readonly notes: RedisServer;
  readonly pods: readonly Pod[];
  stop(): Promise<void>;
}

export async function startFleet({ pods, ttlMs }: ChaosOptions): Promise<Fleet> {
  const redis = await startRedis({ config: durable });
  const notes = await startRedis();
  const env = {
    LOG_LEVEL: 'info',
    AGENT_MODULE: join(import.meta.dirname, 'chaos-agent.ts'),
    CHAOS_NOTES_URL: notes.url,
    MASTRA_AGENT_THREAD_LEASE_TTL_MS: String(ttlMs),
    MASTRA_AGENT_THREAD_LEASE_SWEEP_INTERVAL_MS: String(sweepIntervalMs),
  };
  const fleet: Pod[] = [];
  for (let n = 0; n < pods; n++) {
    // Long enough for what is going on, or so short that it has to be cut off.
    const drainTimeoutMs = n % 2 === 0 ? '3000' : '60';
    const ownEnv = { ...env, MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: drainTimeoutMs };
    fleet.push(new Pod(`pod-${n}`, await startTcpProxy(redis.port), ownEnv));
  }
  for (const pod of fleet) await pod.start();
  return {
    redis,
    notes,
    pods: fleet,
    async stop() {
      await Promise.all(fleet.map(pod => pod.destroy()));
      await Promise.all([redis.stop(), notes.stop()]);
    },
  };
}
