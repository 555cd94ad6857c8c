/**
 * The process stood still for longer than its lease. On wake the agent's own timer fired before the keeper's, its abort signal
 * still said that all was well, and it did one more piece of work beside its successor.
 */

import { expect, test } from 'vitest';

import type { AgentRun, Chunk } from '../../src/contracts/agent.ts';
import { instant } from '../../src/core/clock.ts';
import { LeaseKeeper } from '../../src/leases/lease-keeper.ts';
import type { HeldLease } from '../../src/leases/lease-keeper.ts';
import { MemoryLeaseProvider } from '../../src/memory/memory-leases.ts';
import { Run } from '../../src/threads/run.ts';
import { RunOutput } from '../../src/threads/run-output.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { scriptedMailbox } from '../unit/telemetry/scripted-mailbox.ts';

const ttlMs = 3000;
const thread = { resourceId: 'r', threadId: 't' };

async function setUp(agent: (run: AgentRun) => AsyncIterable<Chunk>) {
  const clock = new FakeClock();
  const provider = new MemoryLeaseProvider(clock);
  const settings = () => ({ ttlMs, renewIntervalMs: 1000, driftMs: 500, sweepIntervalMs: 1000, drainTimeoutMs: 1000 });
  const keeper = new LeaseKeeper({ provider, settings, clock });
  const askedAt = instant(clock);
  const { fencingToken = 0 } = await provider.acquireLease('key', 'pod/run', ttlMs);
  const lease: HeldLease = keeper.hold({ key: 'key', owner: 'pod/run', fencingToken, ttlMs, askedAt });
  const mailbox = scriptedMailbox({ append: () => Promise.resolve({ abortRequested: false }) });
  const output = new RunOutput({ mailbox, thread, lease, clock, onAbortRequested() {} });
  const signal = { id: 's', type: 'user', contents: 'hi', createdAt: '2026-01-01T00:00:00.000Z' };
  const entries = [{ id: '1-0', envelope: { agentId: 'a', signal, turn: 'current' as const }, waking: true, attempt: 1 }];
  return { clock, keeper, run: new Run({ agentId: 'a', agent, runId: 'run', thread, lease, output, entries }) };
}

test('an agent that looks right after a stall sees that its lease is over, before any timer has fired', async () => {
  const seen: unknown[] = [];
  const { clock, keeper, run } = await setUp(async function* (given) {
    seen.push(given.abortSignal.aborted);
    clock.stall(2 * ttlMs);
    seen.push(given.abortSignal.aborted);
    try {
      given.abortSignal.throwIfAborted();
    } catch (error) {
      seen.push((error as { code: string }).code);
    }
    yield { type: 'text-delta' };
  });
  expect(await run.execute()).toMatchObject({ end: 'lease_lost' });
  expect(seen).toEqual([false, true, 'SIG_LEASE_EXPIRED']);
  keeper.close();
});

test('an agent is not started any more when the stall came before its start', async () => {
  let started = false;
  const { clock, keeper, run } = await setUp(async function* () {
    started = true;
    yield { type: 'text-delta' };
  });
  clock.stall(2 * ttlMs);
  expect(await run.execute()).toMatchObject({ end: 'lease_lost' });
  expect(started).toBe(false);
  keeper.close();
});
