/** Chunks that mailboxes themselves put into a thread's output. */

import type { Chunk } from './agent.ts';

/** To one reader, in place of what it can't be given any more: it had read up to `after`, and goes on behind `until`. */
export function missedChunk(after: string, until: string): Chunk {
  return { type: 'signals-missed', payload: { after, until } };
}

/** No more will come of this run, which was never settled. `end_dead_run` in the scripts for Redis says the same. */
export function cutShortChunk(runId: string): Chunk {
  const error = { code: 'SIG_LEASE_LOST', message: 'the owner of this run is gone; what still waits is run again' };
  return { type: 'error', runId, from: 'AGENT', payload: { error } };
}
