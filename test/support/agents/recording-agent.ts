/**
 * A user's module for tests: each run notes in Redis that it started and ended, with its fencing token and what it was given, so
 * that a test can say afterwards who ran what, when, and whether two ever overlapped.
 */

import { Redis } from 'ioredis';

import type { AgentRun, Chunk } from '../../../src/contracts/agent.ts';

export interface RunRecord {
  event: 'start' | 'signal' | 'end';
  process: number;
  thread: string;
  runId: string;
  token: number;
  attempt: number;
  /** The signal's text, for `signal`. */
  text?: string;
}

const redis = new Redis(process.env['RECORD_REDIS_URL'] ?? 'redis://127.0.0.1:6379');
const workMs = Number(process.env['RECORD_WORK_MS'] ?? 0);

async function record(run: AgentRun, event: RunRecord['event'], text?: string): Promise<void> {
  const entry: RunRecord = {
    event,
    process: process.pid,
    thread: run.thread.threadId,
    runId: run.runId,
    token: run.fencingToken ?? 0,
    attempt: run.attempt,
    ...(text === undefined ? {} : { text }),
  };
  await redis.rpush('records', JSON.stringify(entry));
}

export async function* recorder(run: AgentRun): AsyncGenerator<Chunk> {
  await record(run, 'start');
  try {
    yield { type: 'start', runId: run.runId };
    for (const signal of run.signals) {
      await work(run, String(signal.contents));
      yield { type: 'text-delta', runId: run.runId, payload: { text: signal.contents } };
    }
    for (const signal of run.arrivals.drain()) {
      await work(run, String(signal.contents));
      yield { type: 'text-delta', runId: run.runId, payload: { text: signal.contents } };
    }
    yield { type: 'finish', runId: run.runId, payload: {} };
  } finally {
    await record(run, 'end');
  }
}

async function work(run: AgentRun, text: string): Promise<void> {
  run.abortSignal.throwIfAborted();
  await record(run, 'signal', text);
  if (workMs > 0) await new Promise(resolve => setTimeout(resolve, workMs));
}
