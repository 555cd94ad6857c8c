/** The agent that says back what it was told: for first steps, for demonstrations and for tests. */

import type { AgentDefinition, AgentRun, Chunk } from '../contracts/agent.ts';
import type { Signal } from '../contracts/signal.ts';
import { textOf } from './contents.ts';

export const echoAgent: AgentDefinition = {
  id: 'echo',
  name: 'Echo',
  description: 'Says back what it was told.',
  run: echo,
};

/** One `text-delta` a signal, those that arrive meanwhile included, in the shape of Mastra's chunks. */
async function* echo(run: AgentRun): AsyncIterable<Chunk> {
  const chunk = (type: string, payload: Record<string, unknown>): Chunk => ({ type, runId: run.runId, from: 'AGENT', payload });
  yield chunk('start', { id: run.agentId });
  let signals: readonly Signal[] = run.signals;
  while (signals.length > 0) {
    for (const signal of signals) {
      if (run.abortSignal.aborted) return;
      yield chunk('text-delta', { id: signal.id, text: textOf(signal.contents) });
    }
    signals = run.arrivals.drain();
  }
  if (!run.abortSignal.aborted) yield chunk('finish', { stepResult: { reason: 'stop', isContinued: false } });
}
