/** Pods of the real runtime for benchmarks, with the agents of `signals-agent.ts`, and what those tell. */

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import type { RedisServer } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { ttlMs } from './leases-holder.ts';
import { idHeader } from './signals-agent.ts';
import type { Mark } from './signals-agent.ts';

export const resourceId = 'bench';

/** Where the agents of all pods tell what they do. */
export class Marks {
  /** By signal: when a pod had the head of its request, and when an agent had the signal; microseconds of one clock. */
  readonly accepted = new Map<string, number>();
  readonly started = new Map<string, number>();
  /** By process: the port of its plain handler. */
  readonly plainPorts = new Map<number, number>();
  /** By signal: bytes in use after a collection. */
  readonly heaps = new Map<string, number>();
  /** Processes that end with this one, however it ends. */
  readonly #children = new Set<number>();
  readonly #directory = mkdtempSync(join(tmpdir(), 'signals-bench-'));
  readonly #server: Server;

  private constructor() {
    process.once('exit', () => {
      for (const pid of this.#children) process.kill(pid, 'SIGKILL');
    });
    this.#server = createServer(socket => {
      createInterface(socket).on('line', line => this.#keep(JSON.parse(line) as Mark));
    });
  }

  static async listen(): Promise<Marks> {
    const marks = new Marks();
    marks.#server.listen(marks.socketPath);
    await once(marks.#server, 'listening');
    return marks;
  }

  get socketPath(): string {
    return join(this.#directory, 'marks');
  }

  /** Ends with this process unless it has ended before. */
  holdOn(child: { pid: number; exited(): Promise<unknown> }): void {
    this.#children.add(child.pid);
    void child.exited().then(() => this.#children.delete(child.pid));
  }

  close(): void {
    this.#server.close();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #keep(mark: Mark): void {
    if (mark.what === 'listening') this.plainPorts.set(mark.process, mark.port);
    else if (mark.what === 'heap') this.heaps.set(mark.id, mark.bytes);
    else (mark.what === 'accepted' ? this.accepted : this.started).set(mark.id, mark.atUs);
  }
}

export async function startBenchPod(name: string, redis: RedisServer, marks: Marks, env: Record<string, string> = {}): Promise<RuntimeProcess> {
  const pod = await startRuntime({
    name,
    env: {
      REDIS_URL: redis.url,
      BENCH_SOCKET: marks.socketPath,
      AGENT_MODULE: join(import.meta.dirname, 'signals-agent.ts'),
      LOG_LEVEL: 'warn',
      MAX_RUNS: '100000',
      MASTRA_AGENT_THREAD_LEASE_TTL_MS: String(ttlMs),
      ...env,
    },
  });
  marks.holdOn(pod);
  return pod;
}

/** Answers the signal's id. */
export async function send(pod: RuntimeProcess, agent: 'brief' | 'waiting' | 'held' | 'weighing', threadId: string): Promise<string> {
  const id = randomUUID();
  const body = { signal: { id, type: 'user', contents: 'something to do' }, resourceId, threadId };
  await post(`${pod.url}/api/agents/${agent}/signals`, id, body);
  return id;
}

export async function post(url: string, id: string, body: object): Promise<void> {
  const headers = { 'content-type': 'application/json', [idHeader]: id };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  await response.text();
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
}

/** Milliseconds of CPU that all threads of a process have used. */
export function cpuMs(pid: number): number {
  const tasks = readdirSync(`/proc/${pid}/task`);
  return tasks.reduce((sum, task) => sum + Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ', 1)[0]), 0) / 1e6;
}
