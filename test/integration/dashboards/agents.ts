/** Agents that make what the dashboards show: the scripted one, one that writes without end, one that uses the streams backend. */

import type { AgentRun, Chunk } from '../../../src/contracts/agent.ts';
import { RedisStreamsPubSub } from '../../../src/redis/streams-pubsub.ts';

export { scripted } from '../../support/agents/scripted-agent.ts';

/** Writes until it is stopped, so that one write at least is refused when its lease is taken away; the next owner is done at once. */
export async function* chatty(run: AgentRun): AsyncGenerator<Chunk> {
  while (!run.abortSignal.aborted && run.attempt === 1) {
    yield { type: 'said', runId: run.runId, payload: {} };
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}

/** A topic that can't be sent to: the story puts something that is no stream under its key. */
const brokenTopic = 'broken';

/** Sends events, handles one kind of them and fails at the other, which is given up after its second delivery. */
export async function* events(run: AgentRun): AsyncGenerator<Chunk> {
  const pubsub = new RedisStreamsPubSub({ url: process.env['RECORD_REDIS_URL'] ?? '', maxDeliveryAttempts: 2 });
  try {
    await pubsub.subscribe('good', () => {}, { group: 'all' });
    await pubsub.subscribe('bad', () => { throw new Error('told to fail'); }, { group: 'all' });
    while (!run.abortSignal.aborted) {
      for (const topic of ['good', 'bad']) await pubsub.publish(topic, { type: 'tick', data: {}, runId: run.runId });
      await pubsub.publish(brokenTopic, { type: 'tick', data: {}, runId: run.runId }).catch(() => {}); // is to fail
      yield { type: 'said', runId: run.runId, payload: {} };
      await new Promise(resolve => setTimeout(resolve, 500));
    }
  } finally {
    await pubsub.close();
  }
}
