/** Pods of the real runtime on one real Redis, with the scripted agent, for tests of what happens to a fleet. */

import { Redis } from 'ioredis';

import { threadLeaseKey } from '../../src/contracts/thread.ts';
import type { ThreadRef } from '../../src/contracts/thread.ts';
import type { RunRecord } from './agents/recording-agent.ts';
import { startRedis } from './redis-server.ts';
import type { RedisServer } from './redis-server.ts';
import { readRecords } from './run-history.ts';
import { startRuntime } from './runtime-process.ts';
import type { RuntimeProcess } from './runtime-process.ts';
import { until } from './until.ts';

export interface Answer {
  status: number;
  accepted?: boolean;
  runId: string;
  action: string;
  owner: string;
  duplicate: boolean;
  fencingToken?: number;
}

export class Fleet {
  readonly redis: RedisServer;
  readonly client: Redis;
  readonly #pods: RuntimeProcess[] = [];

  private constructor(redis: RedisServer) {
    this.redis = redis;
    this.client = new Redis(redis.url);
    this.client.on('error', () => {}); // tests take the server away
  }

  static async start(): Promise<Fleet> {
    return new Fleet(await startRedis());
  }

  async pod(name: string, env: Record<string, string | undefined> = {}): Promise<RuntimeProcess> {
    const pod = await startRuntime({
      name,
      env: {
        REDIS_URL: this.redis.url,
        RECORD_REDIS_URL: this.redis.url,
        AGENT_MODULE: new URL('agents/scripted-agent.ts', import.meta.url).pathname,
        LOG_LEVEL: 'warn',
        MASTRA_AGENT_THREAD_LEASE_TTL_MS: '2000',
        MASTRA_AGENT_THREAD_LEASE_SWEEP_INTERVAL_MS: '200',
        ...env,
      },
    });
    this.#pods.push(pod);
    return pod;
  }

  /** `path` is `send-message`, `queue-message`, `signals`, `threads/abort`, ... */
  async post(pod: RuntimeProcess, path: string, body: object): Promise<Answer> {
    const response = await fetch(`${pod.url}/api/agents/scripted/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: response.status, ...((await response.json()) as Omit<Answer, 'status'>) };
  }

  send(pod: RuntimeProcess, thread: ThreadRef, message: string): Promise<Answer> {
    return this.post(pod, 'send-message', { ...thread, message });
  }

  queue(pod: RuntimeProcess, thread: ThreadRef, message: string): Promise<Answer> {
    return this.post(pod, 'queue-message', { ...thread, message });
  }

  records(): Promise<RunRecord[]> {
    return readRecords(this.redis.url);
  }

  /** Texts of the signals that ran, in order. */
  async ran(): Promise<string[]> {
    return (await this.records()).flatMap(({ event, text }) => (event === 'signal' && text !== undefined ? [text] : []));
  }

  async hasRun(...texts: string[]): Promise<void> {
    await until(`${texts.join(', ')} ran`, async () => {
      const ran = await this.ran();
      return texts.every(text => ran.includes(text));
    });
  }

  /** The owner of a thread by the store's word. */
  owner(thread: ThreadRef): Promise<string | null> {
    return this.client.get(`mastra:topic:lease:${threadLeaseKey(thread)}`);
  }

  async idle(thread: ThreadRef): Promise<void> {
    await until('the thread is idle', async () => (await this.owner(thread)) === null);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#pods.map(pod => pod.destroy()));
    this.client.disconnect();
    await this.redis.stop();
  }
}
