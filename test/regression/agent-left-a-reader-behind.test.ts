/**
 * An agent that waits for arrivals in a task of its own, and ends without ending that: what arrived while the run's last chunks
 * were on their way was handed to the reader that was left, and counted as consumed. Nobody ever did anything with it.
 */

import { expect, test } from 'vitest';

import type { AgentRun } from '../../src/contracts/agent.ts';
import type { InboxEntry } from '../../src/contracts/thread-mailbox.ts';
import { instant } from '../../src/core/clock.ts';
import { LeaseKeeper } from '../../src/leases/lease-keeper.ts';
import { MemoryLeaseProvider } from '../../src/memory/memory-leases.ts';
import { Run } from '../../src/threads/run.ts';
import { RunOutput } from '../../src/threads/run-output.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { scriptedMailbox } from '../unit/telemetry/scripted-mailbox.ts';

const thread = { resourceId: 'r', threadId: 't' };

function entry(id: string): InboxEntry {
  const signal = { id, type: 'user', contents: id, createdAt: '2026-01-01T00:00:00.000Z' };
  return { id, envelope: { agentId: 'a', signal, turn: 'current' }, waking: true, attempt: 1 };
}

test.each(['ends', 'fails'])('a signal that arrives when the agent %s, and is still read for, is the next run\'s', async how => {
  const clock = new FakeClock();
  const settings = () => ({ ttlMs: 3000, renewIntervalMs: 1000, driftMs: 500, sweepIntervalMs: 1000, drainTimeoutMs: 1000 });
  const keeper = new LeaseKeeper({ provider: new MemoryLeaseProvider(clock), settings, clock });
  const lease = keeper.hold({ key: 'k', owner: 'pod/run', ttlMs: 3000, askedAt: instant(clock) });
  let put: (answer: { abortRequested: boolean }) => void = () => {};
  const mailbox = scriptedMailbox({ append: () => new Promise(resolve => (put = resolve)) });
  const output = new RunOutput({ mailbox, thread, lease, clock, onAbortRequested() {} });
  async function* agent(run: AgentRun) {
    void run.arrivals[Symbol.asyncIterator]().next();
    if (how === 'fails') throw new Error('told to');
    yield await Promise.resolve({ type: 'one' });
  }
  const run = new Run({ agentId: 'a', agent, runId: 'run', thread, lease, output, entries: [entry('1-0')] });
  const executed = run.execute();
  await clock.advance(0);
  run.join([entry('2-0')]);
  put({ abortRequested: false });
  await clock.advance(0);
  put({ abortRequested: false });
  await executed;
  expect(run.consumed).toEqual(['1-0']);
  expect(run.unread).toEqual(['2-0']);
  keeper.close();
});
