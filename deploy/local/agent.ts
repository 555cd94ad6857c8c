/** An agent to look at: takes a moment or some seconds for each signal, stops when it is told to, and fails now and then. */

import { setTimeout as pause } from 'node:timers/promises';

import type { AgentRun, Chunk } from '../../src/contracts/agent.ts';

export async function* worker(run: AgentRun): AsyncGenerator<Chunk> {
  for (const signal of run.signals) yield* work(run, String(signal.contents));
  for (const signal of run.arrivals.drain()) yield* work(run, String(signal.contents));
}

async function* work(run: AgentRun, text: string): AsyncGenerator<Chunk> {
  if (Math.random() < 0.02) throw new Error('one in fifty fails, to be looked at');
  // Most are short; one in twenty is long enough to be renewed, killed and taken over.
  const workMs = Math.random() < 0.05 ? 20_000 : 200 + Math.random() * 2000;
  await pause(workMs, undefined, { signal: run.abortSignal });
  yield { type: 'text-delta', runId: run.runId, payload: { text: `done: ${text}` } };
}
