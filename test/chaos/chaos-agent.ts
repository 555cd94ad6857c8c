/**
 * The agents of a chaos run, a user's module: note in a Redis of its own that they started, did something for each signal, and
 * ended. They look at their abort signal in the same breath as they act, as an agent must; and end their process when told to.
 */

import { Redis } from 'ioredis';

import type { AgentRun, Chunk } from '../../src/contracts/agent.ts';
import type { Given, Note } from './history.ts';
import { agentIds, endKey, isQuiet } from './names.ts';
import { watchForStalls } from './stalls.ts';

const pod = process.env['INSTANCE_NAME'] ?? '';
const longestWorkMs = Number(process.env['CHAOS_WORK_MS'] ?? 500);

// Connected before the first run, and never queueing: a note must leave when it is made.
const redis = new Redis(process.env['CHAOS_NOTES_URL'] ?? '', { lazyConnect: true, enableOfflineQueue: false });
await redis.connect();
watchForStalls(stall => void redis.rpush('stalls', JSON.stringify({ ...stall, kind: 'process stalled', pod })));

async function* chaos(run: AgentRun): AsyncGenerator<Chunk> {
  let given = [...run.signals];
  await noteGiven(run, given.map(({ id }) => id));
  await note(run, 'start');
  yield { type: 'start', runId: run.runId };
  while (given.length > 0) {
    for (const signal of given) {
      await work(run);
      await note(run, 'signal', signal.id);
      yield { type: 'text-delta', runId: run.runId, payload: { text: signal.id } };
    }
    given = run.arrivals.drain();
    await noteGiven(run, given.map(({ id }) => id));
  }
  await note(run, 'end');
}

export default Object.fromEntries(agentIds.map(id => [id, chaos]));

/** Evidence, not an effect: also of a run that is told to stop before it does anything. */
async function noteGiven(run: AgentRun, signalIds: readonly string[]): Promise<void> {
  if (signalIds.length === 0) return;
  const given: Given = { thread: run.thread.threadId, runId: run.runId, signalIds };
  await redis.rpush('given', JSON.stringify(given));
}

/** The time is read first: whatever stops the process from here on, the look at the abort signal comes after it. */
async function note(run: AgentRun, event: Note['event'], signalId?: string): Promise<void> {
  const atMs = Date.now();
  if (run.abortSignal.aborted) throw run.abortSignal.reason;
  const entry: Note = {
    event,
    atMs,
    thread: run.thread.threadId,
    pod,
    agent: run.agentId,
    runId: run.runId,
    token: run.fencingToken ?? 0,
    attempt: run.attempt,
    ...(signalId === undefined ? {} : { signalId }),
  };
  await redis.rpush('notes', JSON.stringify(entry));
}

/** Mostly a few ms, sometimes some 100; seldom, and always on quiet threads, in steps for as long as a lease lasts: owners are lost meanwhile. */
async function work(run: AgentRun): Promise<void> {
  await endIfTold();
  const share = Math.random();
  const steps = isQuiet(run.thread.threadId) ? 10 : share > 0.97 ? 20 : 0;
  if (steps > 0) {
    for (let step = 0; step < steps; step++) {
      await sleep(run, longestWorkMs * 0.4);
      await note(run, 'step');
    }
  }
  await sleep(run, share < 0.8 ? longestWorkMs * 0.15 * share : longestWorkMs * share);
}

async function endIfTold(): Promise<void> {
  const how = await redis.getdel(endKey(pod));
  if (how === 'exit') process.exit(13);
  if (how === 'crash') {
    setImmediate(() => {
      throw new Error('told to crash');
    });
  }
}

async function sleep(run: AgentRun, forMs: number): Promise<void> {
  await new Promise<void>(resolve => {
    const done = () => {
      clearTimeout(timer);
      run.abortSignal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, forMs);
    run.abortSignal.addEventListener('abort', done, { once: true });
  });
}
