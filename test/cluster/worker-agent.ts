/**
 * The agent of the scenarios, a user's module in a ConfigMap (without its types): works for as long as each signal says (`work <ms>`), and
 * notes in a Redis of its own what it did, in the form in which test/chaos judges it. It looks at its abort signal in the same breath as
 * it acts.
 */

import { createRequire } from 'node:module';

import type { Redis as RedisClient } from 'ioredis';

import type { AgentRun, Chunk } from '../../src/contracts/agent.ts';
import type { Signal } from '../../src/contracts/signal.ts';
import type { Given, Note } from '../chaos/history.ts';

// The module is alone in its directory; the runtime's own dependencies are in its image.
const { Redis } = createRequire('/app/package.json')('ioredis') as { Redis: typeof RedisClient };
const pod = process.env['POD_NAME'] ?? '';

// Connected before the first run, and never queueing: a note must leave when it is made.
const redis = new Redis(process.env['NOTES_URL'] ?? '', { lazyConnect: true, enableOfflineQueue: false });
await redis.connect();

export async function* worker(run: AgentRun): AsyncGenerator<Chunk> {
  let given = [...run.signals];
  await noteGiven(run, given);
  await note(run, 'start');
  yield { type: 'start', runId: run.runId };
  while (given.length > 0) {
    for (const signal of given) {
      await work(run, signal);
      await note(run, 'signal', signal.id);
      yield { type: 'text-delta', runId: run.runId, payload: { text: signal.id } };
    }
    given = run.arrivals.drain();
    await noteGiven(run, given);
  }
  await note(run, 'end');
}

/** In steps, so that a run that goes on when it should not is seen. */
async function work(run: AgentRun, signal: Signal): Promise<void> {
  const forMs = Number(/work (\d+)/.exec(JSON.stringify(signal.contents))?.[1] ?? 10);
  const until = performance.now() + forMs;
  for (;;) {
    const leftMs = until - performance.now();
    if (leftMs <= 0 || run.abortSignal.aborted) return;
    await new Promise(resolve => setTimeout(resolve, Math.min(leftMs, 500)));
    if (forMs > 500) await note(run, 'step');
  }
}

/** Evidence, not an effect: also of a run that is told to stop before it does anything. */
async function noteGiven(run: AgentRun, signals: readonly Signal[]): Promise<void> {
  if (signals.length === 0) return;
  const given: Given = { thread: run.thread.threadId, runId: run.runId, signalIds: signals.map(({ id }) => id) };
  await redis.rpush('given', JSON.stringify(given));
}

/** The time is read first: whatever stops the process from here on, the look at the abort signal comes after it. */
async function note(run: AgentRun, event: Note['event'], signalId?: string): Promise<void> {
  const atMs = Date.now();
  if (run.abortSignal.aborted) throw run.abortSignal.reason;
  const { agentId: agent, runId, attempt, thread } = run;
  const entry: Note = {
    event, atMs, thread: thread.threadId, pod, agent, runId, token: run.fencingToken ?? 0, attempt,
    ...(signalId === undefined ? {} : { signalId }),
  };
  await redis.rpush('notes', JSON.stringify(entry));
}
