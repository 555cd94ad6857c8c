/** A run as an agent is given it, and what it puts out. */

import type { Agent, AgentRun, Chunk } from '../../../src/contracts/agent.ts';
import type { Signal } from '../../../src/contracts/signal.ts';
import { AsyncQueue } from '../../../src/core/queue.ts';

export function signal(contents: unknown, fields: Partial<Signal> = {}): Signal {
  return { id: `s-${String(contents).slice(0, 20)}`, type: 'user', contents, createdAt: '2026-01-02T03:04:05.678Z', ...fields };
}

export function agentRun(fields: Partial<AgentRun> = {}): AgentRun & { arrivals: AsyncQueue<Signal> } {
  return {
    agentId: 'echo',
    runId: 'run-1',
    thread: { resourceId: 'user-1', threadId: 'thread-1' },
    signals: [signal('hello')],
    abortSignal: new AbortController().signal,
    fencingToken: 7,
    attempt: 1,
    ...fields,
    arrivals: new AsyncQueue<Signal>(),
  };
}

export async function chunksOf(agent: Agent, run: AgentRun): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of agent(run)) chunks.push(chunk);
  return chunks;
}
