/** A user's module for tests: says how large each signal was that it was given, and keeps nothing. */

import type { AgentRun, Chunk } from '../../../src/contracts/agent.ts';

export async function* measurer(run: AgentRun): AsyncGenerator<Chunk> {
  for (const { id, contents } of run.signals) {
    await Promise.resolve();
    yield { type: 'measured', runId: run.runId, payload: { id, length: String(contents).length } };
  }
}
