/**
 * An agent whose tool writes to a database of its own, fenced. Mount it as an agent module; a Mastra tool finds the same
 * token in its request context, a remote agent in the header of the request.
 */

import type { Agent } from '../../../src/contracts/agent.ts'; // in your project: from 'signals-runtime'
import type { FencedDatabase } from './fenced-database.ts';

export function orderAgent(database: FencedDatabase): Agent {
  return async function* ({ signals, thread, fencingToken, abortSignal }) {
    // Without leases that give tokens there is nothing to check: refuse rather than write unprotected.
    if (fencingToken === undefined) throw new Error('this agent writes, and needs a fencing token');
    const name = `${thread.resourceId}/${thread.threadId}`;
    for (const signal of signals) {
      if (abortSignal.aborted) return;
      database.addOrder(name, fencingToken, String(signal.contents));
      yield { type: 'text-delta', text: `ordered ${String(signal.contents)}` };
    }
  };
}
