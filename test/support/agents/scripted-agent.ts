/**
 * A user's module for tests, told what to do by the signals themselves. Notes like the recording agent; then, for each signal:
 *
 *   sleep <ms>   works, and stops when it is told to
 *   tool <ms>    calls a tool that can't be interrupted
 *   throw        fails
 *   exit         ends the whole process
 *   context      puts out what the sender said about the run
 */

import { Redis } from 'ioredis';

import type { AgentRun, Chunk } from '../../../src/contracts/agent.ts';
import type { RunRecord } from './recording-agent.ts';

const redis = new Redis(process.env['RECORD_REDIS_URL'] ?? 'redis://127.0.0.1:6379');

async function note(run: AgentRun, event: RunRecord['event'], text?: string): Promise<void> {
  const { runId, attempt, thread } = run;
  const entry: RunRecord = {
    event, process: process.pid, thread: thread.threadId, runId, token: run.fencingToken ?? 0, attempt,
    ...(text === undefined ? {} : { text }),
  };
  await redis.rpush('records', JSON.stringify(entry));
}

export async function* scripted(run: AgentRun): AsyncGenerator<Chunk> {
  await note(run, 'start');
  try {
    for (const signal of run.signals) yield* obey(run, String(signal.contents));
    for (const signal of run.arrivals.drain()) yield* obey(run, String(signal.contents));
  } finally {
    await note(run, 'end');
  }
}

/** Another agent of the same kind. */
export { scripted as second };

/** Puts out each signal as it was given. */
export async function* showing(run: AgentRun): AsyncGenerator<Chunk> {
  for (let signals = [...run.signals]; signals.length > 0; signals = run.arrivals.drain()) {
    for (const signal of signals) yield await Promise.resolve({ type: 'shown', runId: run.runId, payload: signal });
  }
}

async function* obey(run: AgentRun, text: string): AsyncGenerator<Chunk> {
  await note(run, 'signal', text);
  const [verb, argument] = text.split(' ');
  const pauseMs = Number(argument ?? 0);
  if (verb === 'throw') throw new Error('told to fail');
  if (verb === 'exit') process.exit(42);
  if (verb === 'tool') await pause(pauseMs);
  if (verb === 'sleep') await pause(pauseMs, run.abortSignal);
  yield { type: 'said', runId: run.runId, payload: { text, ...(verb === 'context' ? { options: run.options } : {}) } };
}

async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await new Promise(resolve => {
    setTimeout(resolve, ms);
    signal?.addEventListener('abort', resolve);
  });
  signal?.throwIfAborted();
}
