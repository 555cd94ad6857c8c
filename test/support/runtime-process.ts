/** The real thing in a process of its own: `node src/main.ts` with an environment, on free ports. */

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { freePort } from './redis-server.ts';
import { until } from './until.ts';

export interface RuntimeProcess {
  readonly name: string;
  readonly pid: number;
  readonly url: string;
  readonly metricsUrl: string;
  /** The log so far, one JSON text a line. */
  logs(): string[];
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
  /** The exit code, or the signal that ended it; `undefined` while it runs. */
  readonly exitCode: number | NodeJS.Signals | undefined;
  /** Waits until it has gone. Answers its exit code, or the signal that ended it. */
  exited(): Promise<number | NodeJS.Signals>;
  /** SIGKILL if it is still there. For the end of a test. */
  destroy(): Promise<void>;
}

export interface RuntimeProcessOptions {
  name: string;
  /** What is `undefined` is not set. */
  env?: Record<string, string | undefined>;
  /** Do not wait until it is ready. */
  unready?: boolean;
}

/** A process has some hundred modules to read, and a busy machine other things to do. */
const startLimitMs = 120_000;

const main = join(import.meta.dirname, '../../src/main.ts');

export async function startRuntime({ name, env = {}, unready = false }: RuntimeProcessOptions): Promise<RuntimeProcess> {
  const [port, metricsPort] = [await freePort(), await freePort()];
  const child = spawn(process.execPath, [main], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'] ?? '',
      HOST: '127.0.0.1',
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      INSTANCE_NAME: name,
      ...env,
    },
  });
  const output = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.err += text));
  const runtime = handleOf(name, child, port, metricsPort, output);
  if (unready) return runtime;
  try {
    await until(`${name} is ready`, async () => {
      if (child.exitCode !== null) throw new Error(`${name} exited with ${child.exitCode}: ${output.err}${output.out.slice(-2000)}`);
      return await fetch(`${runtime.url}/readyz`).then(response => response.ok, () => false);
    }, startLimitMs);
  } catch (error) {
    await runtime.destroy();
    throw error;
  }
  return runtime;
}

function handleOf(
  name: string, child: ChildProcess, port: number, metricsPort: number, output: { out: string; err: string },
): RuntimeProcess {
  const exit = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  return {
    name,
    pid: child.pid ?? -1,
    url: `http://127.0.0.1:${port}`,
    metricsUrl: `http://127.0.0.1:${metricsPort}`,
    get exitCode() {
      return child.exitCode ?? child.signalCode ?? undefined;
    },
    logs: () => output.out.split('\n').filter(line => line !== ''),
    stderr: () => output.err,
    kill: signal => void child.kill(signal),
    exited: () => exit,
    async destroy() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
      await exit;
    },
  };
}
