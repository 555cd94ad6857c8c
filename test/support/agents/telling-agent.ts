/**
 * A user's module for tests that tells the ids of its thread wherever it can. By the first signal of a run:
 *
 *   publish   sends, gets and acks an event on a topic that is named after the thread
 *   fail      throws an error with the ids in it
 *   write     writes until it is stopped
 */

import type { AgentRun, Chunk } from '../../../src/contracts/agent.ts';
import { RedisStreamsPubSub } from '../../../src/redis/streams-pubsub.ts';

export async function* telling(run: AgentRun): AsyncGenerator<Chunk> {
  const { thread, runId, signals } = run;
  const verb = String(signals[0]?.contents);
  if (verb === 'publish') await publish(`talk.${thread.resourceId}.${thread.threadId}`, runId);
  if (verb === 'fail') throw new Error(`${thread.resourceId} has no conversation "${thread.threadId}"`);
  if (verb === 'write') {
    while (!run.abortSignal.aborted) {
      yield { type: 'said', runId, payload: {} };
      await new Promise(resolve => setTimeout(resolve, 10));
    }
  }
  yield { type: 'finish', runId, payload: {} };
}

async function publish(topic: string, runId: string): Promise<void> {
  const pubsub = new RedisStreamsPubSub({ url: process.env['REDIS_URL'] ?? '' });
  try {
    await new Promise<void>((resolve, reject) => {
      const subscribed = pubsub.subscribe(topic, async (_event, ack) => resolve(await ack?.()), { group: 'all' });
      subscribed.then(() => pubsub.publish(topic, { type: 'tick', data: {}, runId })).catch(reject);
    });
  } finally {
    await pubsub.close();
  }
}
