/** What a run that was cut short says of the signals that it was given. */

import { expect, test } from 'vitest';

import type { AgentRun } from '../../../src/contracts/agent.ts';
import type { LeaseProvider } from '../../../src/contracts/lease-provider.ts';
import { silentObserver } from '../../../src/contracts/observer.ts';
import type { Grant } from '../../../src/contracts/thread-mailbox.ts';
import { instant } from '../../../src/core/clock.ts';
import { SignalsError } from '../../../src/core/errors.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { LeaseKeeper } from '../../../src/leases/lease-keeper.ts';
import { OwnedThreads } from '../../../src/threads/owned-threads.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { scriptedMailbox } from '../telemetry/scripted-mailbox.ts';

const ttlMs = 3000;
const thread = { resourceId: 'r', threadId: 't' };
const unavailable = new SignalsError('SIG_STORE_UNAVAILABLE', 'away');

interface Rig {
  clock: FakeClock;
  owned: OwnedThreads;
  spared: Grant[];
  grant: Grant;
}

async function* untilAborted({ abortSignal }: AgentRun) {
  yield { type: 'start' };
  await new Promise(resolve => abortSignal.addEventListener('abort', resolve));
}

async function* deaf() {
  yield { type: 'start' };
  await new Promise(() => {});
}

/** One run on a store whose renewals answer like this. */
async function start(renewLease: LeaseProvider['renewLease'], agent = untilAborted as (run: AgentRun) => AsyncIterable<{ type: string }>): Promise<Rig> {
  const clock = new FakeClock();
  const settings = () => ({ ttlMs, renewIntervalMs: 1000, driftMs: 500, sweepIntervalMs: 1000, drainTimeoutMs: 1000 });
  const spared: Grant[] = [];
  const signal = { id: 's', type: 'user', contents: 'hi', createdAt: '2026-01-01T00:00:00.000Z' };
  const entries = [{ id: '1-0', envelope: { agentId: 'a', signal, turn: 'current' as const }, waking: true, attempt: 1 }];
  const mailbox = scriptedMailbox({
    take: () => Promise.resolve({ entries, cursor: '1-0', abortRequested: false }),
    append: () => Promise.resolve({ abortRequested: false }),
    spare: (_thread, grant) => {
      spared.push(grant);
      return spared.length === 1 ? Promise.reject(unavailable) : Promise.resolve();
    },
  });
  const provider = { renewLease } as LeaseProvider;
  const keeper = new LeaseKeeper({ provider, settings, clock });
  const agents = { get: (id: string) => ({ id, name: id, run: agent }) };
  const owned = new OwnedThreads({ instanceId: 'pod', mailbox, keeper, agents, settings, clock, observer: silentObserver, logger: silentLogger }, 10);
  const grant: Grant = { key: 'k', owner: 'pod/run', fencingToken: 1, ttlMs, askedAt: instant(clock) };
  owned.start(thread, grant);
  await clock.advance(0);
  return { clock, owned, spared, grant };
}

test('a run that lost its lease to a store that was away spares its signals, and tries until the store has heard it', async () => {
  const { clock, spared, grant } = await start(() => Promise.reject(unavailable));
  await clock.advance(ttlMs - 500);
  expect(spared).toEqual([grant]);
  await clock.advance(ttlMs);
  expect(spared).toEqual([grant, grant]);
  await clock.advance(60_000);
  expect(spared).toHaveLength(2);
});

test('a run whose lease the store gave away spares its signals', async () => {
  const { clock, spared, grant } = await start(() => Promise.resolve(false));
  await clock.advance(1500);
  expect(spared[0]).toBe(grant);
});

test('a run that stood still until its lease was over may have done so because of its signals: they count', async () => {
  const { clock, owned, spared } = await start(() => Promise.resolve(true));
  clock.stall(2 * ttlMs);
  await clock.advance(60_000);
  expect(owned.size).toBe(0);
  expect(spared).toEqual([]);
});

test('a run that a drain can not stop, and that ends with the process, spares its signals', async () => {
  const { clock, owned, spared, grant } = await start(() => Promise.resolve(true), deaf);
  const drained = owned.drain(1000, 500);
  await clock.advance(5000);
  expect(await drained).toEqual({ stopped: 1, abandoned: 1 });
  expect(spared[0]).toBe(grant);
});
