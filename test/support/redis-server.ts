/**
 * Real Redis servers for tests: standalone, with replicas, Sentinel, Cluster. Each on free ports of the loopback and in a
 * directory of its own; `stop()` ends exactly what was started.
 */

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';

import { until } from './until.ts';

export interface RedisServer {
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  /** SIGTERM by default, and waits until the process has gone. The data directory stays for `restart`. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** The same port and data again. */
  restart(): Promise<void>;
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

/** Below what the system gives to outgoing connections: one of those could take a port before its server does. */
const firstPort = 15_000;
const blocks = 150;
const blockSize = 100;

/** The first port of those that are this process's: it listens there for as long as it lives, so that no other takes the block. */
let ownBlock: Promise<number> | undefined;
let lastGiven = 0;

/** On the loopback. Not one that was given out lately: whoever asked for it may not listen yet. */
export async function freePort(): Promise<number> {
  const block = await (ownBlock ??= takeBlock());
  for (;;) {
    lastGiven = (lastGiven % (blockSize - 1)) + 1;
    const port = block + lastGiven;
    const server = await listenOn(port);
    if (!server) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

async function takeBlock(): Promise<number> {
  for (;;) {
    const port = firstPort + blockSize * Math.floor(Math.random() * blocks);
    const guard = await listenOn(port);
    guard?.unref();
    if (guard) return port;
  }
}

function listenOn(port: number): Promise<Server | undefined> {
  const server = createServer();
  return new Promise(resolve => {
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

export interface RedisServerOptions {
  port?: number;
  /** Lines of redis.conf, each `name value`. */
  config?: readonly string[];
  sentinel?: boolean;
}

export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const port = options.port ?? (await freePort());
  const directory = mkdtempSync(join(tmpdir(), 'signals-redis-'));
  const file = join(directory, 'redis.conf');
  const lines = [`port ${port}`, 'bind 127.0.0.1', `dir ${directory}`, 'daemonize no', 'loglevel warning'];
  if (!options.sentinel) lines.push('save ""', 'appendonly no');
  writeFileSync(file, [...lines, ...(options.config ?? [])].join('\n') + '\n');

  let child = await launch(file, port, options.sentinel ?? false);
  const kill = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGCONT');
    child.kill(signal);
    await gone;
  };
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    get pid() {
      return child.pid ?? -1;
    },
    kill,
    async restart() {
      await kill();
      child = await launch(file, port, options.sentinel ?? false);
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    async stop() {
      await kill('SIGKILL');
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function launch(configFile: string, port: number, sentinel: boolean): Promise<ChildProcess> {
  const child = spawn('redis-server', [configFile, ...(sentinel ? ['--sentinel'] : [])], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  child.on('error', error => {
    throw new Error(`redis-server could not be started (npm test installs it): ${error.message}`);
  });
  const probe = new Redis(port, '127.0.0.1', { lazyConnect: true, enableReadyCheck: false, retryStrategy: () => null });
  probe.on('error', () => {});
  await until(`redis on ${port} answers`, async () => {
    if (child.exitCode !== null) throw new Error(`redis-server exited with ${child.exitCode}`);
    await probe.connect().catch(() => {});
    const answer = await probe.ping().catch(() => '');
    if (answer !== 'PONG') probe.disconnect();
    return answer === 'PONG';
  });
  probe.disconnect();
  return child;
}
