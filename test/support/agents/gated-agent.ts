/** A user's module for tests: its first run waits at a gate in Redis, so that a test decides when it ends. */

import { Redis } from 'ioredis';

import type { AgentRun, Chunk } from '../../../src/contracts/agent.ts';
import { until } from '../until.ts';

export interface Gate {
  /** Resolves when a run has this signal. */
  entered(text: string): Promise<void>;
  open(): Promise<void>;
  close(): Promise<void>;
}

export function gateAt(redisUrl: string): Gate {
  const redis = new Redis(redisUrl);
  return {
    entered: text => until(`a run has ${text}`, async () => (await redis.sismember('gate:entered', text)) === 1),
    open: async () => void (await redis.set('gate:open', '1')),
    close: async () => void (await redis.quit()),
  };
}

const agents = {
  async *gated(run: AgentRun): AsyncGenerator<Chunk> {
    const redis = new Redis(process.env['GATE_REDIS_URL'] ?? '');
    try {
      for (const signal of run.signals) await redis.sadd('gate:entered', String(signal.contents));
      yield { type: 'start', runId: run.runId };
      await until('the gate is open', async () => run.abortSignal.aborted || (await redis.exists('gate:open')) === 1);
      run.abortSignal.throwIfAborted();
      yield { type: 'finish', runId: run.runId, payload: {} };
    } finally {
      redis.disconnect();
    }
  },
};

export default agents;
