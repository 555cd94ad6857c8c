/** The agent of the local stack, and one whose runs last as long as a signal says: `<milliseconds> ...`. */

import { setTimeout as pause } from 'node:timers/promises';

import type { AgentRun, Chunk } from '../../src/contracts/agent.ts';

export { worker } from '../local/agent.ts';

export async function* assistant(run: AgentRun): AsyncGenerator<Chunk> {
  for (const { contents } of run.signals) {
    await pause(Number.parseInt(String(contents), 10), undefined, { signal: run.abortSignal });
    yield { type: 'text-delta', runId: run.runId, payload: { text: 'done' } };
  }
}
