/** What the mailbox on PubSub does when its parts fail; what it does when they work is the contract's to test. */

import { afterEach, describe, expect, test } from 'vitest';

import { NoopLeaseProvider } from '../../../src/contracts/lease-provider.ts';
import type { LeaseProvider } from '../../../src/contracts/lease-provider.ts';
import { threadLeaseKey } from '../../../src/contracts/thread.ts';
import type { ThreadRef } from '../../../src/contracts/thread.ts';
import type { DeliverRequest, Grant, MailboxLimits } from '../../../src/contracts/thread-mailbox.ts';
import { EventEmitterPubSub } from '../../../src/memory/event-emitter-pubsub.ts';
import { MemoryLeaseProvider } from '../../../src/memory/memory-leases.ts';
import { PubSubMailbox } from '../../../src/threads/pubsub-mailbox.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const limits: MailboxLimits = {
  maxEntries: 10, maxBytes: 10_000, signalMaxBytes: 1000, dedupeWindowMs: 60_000, outputMaxChunks: 100,
  outputRetentionMs: 60_000, maxDeliveryAttempts: 3,
};
const thread: ThreadRef = { resourceId: 'r', threadId: 't' };
const key = threadLeaseKey(thread);

const open: EventEmitterPubSub[] = [];
afterEach(async () => {
  for (const pubsub of open.splice(0)) await pubsub.close();
});

interface World {
  clock: FakeClock;
  pubsub: EventEmitterPubSub;
  leases: LeaseProvider;
  readonly mailbox: (instanceId: string) => PubSubMailbox;
}

function world(overrides: Partial<LeaseProvider> = {}): World {
  const clock = new FakeClock();
  const pubsub = new EventEmitterPubSub();
  open.push(pubsub);
  const memory = new MemoryLeaseProvider(clock);
  const leases: LeaseProvider = {
    acquireLease: (...args) => memory.acquireLease(...args),
    getLeaseOwner: name => memory.getLeaseOwner(name),
    releaseLease: (...args) => memory.releaseLease(...args),
    renewLease: (...args) => memory.renewLease(...args),
    transferLease: (...args) => memory.transferLease(...args),
    ...overrides,
  };
  return {
    clock, pubsub, leases,
    mailbox: instanceId => new PubSubMailbox({ pubsub, leases, instanceId, limits, clock }),
  };
}

function signal(id: string, owner?: string): DeliverRequest {
  return {
    thread,
    envelope: { agentId: 'agent', signal: { id, type: 'user', contents: id, createdAt: '2026-01-01T00:00:00.000Z' }, turn: 'current' },
    ifActive: { behavior: 'deliver' },
    ifIdle: { behavior: 'wake' },
    ...(owner !== undefined && { claim: { owner, ttlMs: 10_000 } }),
  };
}

async function idsFor(mailbox: PubSubMailbox, grant: Grant | undefined): Promise<string[]> {
  if (!grant) throw new Error('no grant');
  return (await mailbox.take({ thread, grant })).entries.map(entry => entry.envelope.signal.id);
}

/** Lets pass what needs no clock, then the time. */
async function afterMs<T>(clock: FakeClock, durationMs: number, work: Promise<T>): Promise<PromiseSettledResult<T>> {
  const settled = Promise.allSettled([work]);
  for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve));
  await clock.advance(durationMs);
  const [result] = await settled;
  return result;
}

describe('the mailbox on PubSub', () => {
  test('an instance that is alone waits for nobody: no step needs time to pass', async () => {
    const { clock, mailbox } = world();
    const alone = mailbox('a');
    const { grant } = await alone.deliver(signal('s1', 'a/1'));
    await alone.deliver(signal('s2'));
    expect(await idsFor(alone, grant)).toEqual(['s1', 's2']);
    expect(await alone.due(10)).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
  });

  test('an owner that gives no answer is unreachable, which may be tried again, and costs its limit once', async () => {
    const { clock, leases, mailbox } = world();
    await leases.acquireLease(key, 'gone/1', 60_000);
    const here = mailbox('a');
    const result = await afterMs(clock, 2000, here.deliver(signal('s', 'a/1')));
    expect(result).toMatchObject({ status: 'rejected', reason: { code: 'SIG_OWNER_UNREACHABLE', retryable: true } });
    const aborted = await afterMs(clock, 2000, here.abort(thread));
    expect(aborted).toMatchObject({ status: 'rejected', reason: { code: 'SIG_OWNER_UNREACHABLE' } });
    expect((await here.inspect(thread)).waiting).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  test('a backend that keeps a sender waiting does not keep it longer than the limit', async () => {
    const { clock, pubsub, leases, mailbox } = world();
    await leases.acquireLease(key, 'b/1', 60_000);
    const here = mailbox('a');
    await here.listen('a', silent);
    pubsub.publish = () => new Promise(() => {});
    const result = await afterMs(clock, 2000, here.deliver(signal('s', 'a/1')));
    expect(result).toMatchObject({ status: 'rejected', reason: { code: 'SIG_OWNER_UNREACHABLE' } });
  });

  test('a peer that died without a word costs one wait, and the thread goes on', async () => {
    const { clock, pubsub, mailbox } = world();
    const [here, dead] = [mailbox('a'), mailbox('b')];
    await Promise.all([here.listen('a', silent), dead.listen('b', silent)]);
    await pubsub.clearTopic('signals.inbox.b');
    await silence(pubsub, 'signals.inbox.b');
    const first = await afterMs(clock, 2000, here.deliver(signal('s1', 'a/1')));
    expect(first).toMatchObject({ status: 'fulfilled', value: { action: 'wake', duplicate: false } });
    if (first.status === 'rejected') return;
    const grant = first.value.grant as Grant;
    await here.settle({ thread, grant, consumed: await entryIds(here, grant) });
    expect(await here.deliver(signal('s2', 'a/2'))).toMatchObject({ action: 'wake' }); // without time passing
  });

  test('an idle thread is kept for as long as its ids and its output are, and then nothing of it', async () => {
    const { clock, pubsub, mailbox } = world();
    const here = mailbox('a');
    const cleared: string[] = [];
    pubsub.clearTopic = topic => Promise.resolve(void cleared.push(topic));
    const { grant } = await here.deliver(signal('s', 'a/1'));
    await here.append(thread, grant as Grant, [{ type: 'one' }]);
    await here.settle({ thread, grant: grant as Grant, consumed: await entryIds(here, grant as Grant) });
    const look = async (durationMs: number) => {
      await clock.advance(durationMs);
      await here.due(10);
      return { cleared, isKnown: (await here.deliver(signal('s'))).duplicate };
    };
    expect(await look(limits.outputRetentionMs - 1)).toEqual({ cleared: [], isKnown: true });
    expect(await look(60_000)).toEqual({ cleared: ['signals.output.r:t'], isKnown: false });
  });

  test('L4: leases that fail mean a retryable error, no run, and nothing kept', async () => {
    let failing = true;
    const memory = new MemoryLeaseProvider(new FakeClock());
    const { leases, mailbox } = world({
      acquireLease: (...args) => (failing ? Promise.reject(new Error('down')) : memory.acquireLease(...args)),
      getLeaseOwner: name => memory.getLeaseOwner(name),
    });
    const here = mailbox('a');
    await expect(here.deliver(signal('s', 'a/1'))).rejects.toMatchObject({ code: 'SIG_STORE_UNAVAILABLE', retryable: true });
    expect(await leases.getLeaseOwner(key)).toBeUndefined();
    failing = false;
    expect(await here.deliver(signal('s', 'a/2'))).toMatchObject({ action: 'wake', duplicate: false });
  });

  test('a settle whose release failed is repeated, and its effect is once', async () => {
    let failures = 1;
    const memory = new MemoryLeaseProvider(new FakeClock());
    const { mailbox } = world({
      acquireLease: (...args) => memory.acquireLease(...args),
      getLeaseOwner: name => memory.getLeaseOwner(name),
      releaseLease: async (name, owner) => {
        await memory.releaseLease(name, owner);
        if (failures-- > 0) throw new Error('the reply was lost');
      },
    });
    const here = mailbox('a');
    const grant = (await here.deliver(signal('s1', 'a/1'))).grant as Grant;
    await here.deliver(signal('s2'));
    const [first = '', second = ''] = await entryIds(here, grant);
    const request = { thread, grant, consumed: [first], returned: [second] };
    await expect(here.settle(request)).rejects.toMatchObject({ code: 'SIG_STORE_UNAVAILABLE' });
    expect(await here.settle(request)).toEqual({ waiting: 1 });
    expect(await here.due(10)).toEqual([thread]);
    const next = (await here.claim(thread, { owner: 'a/2', ttlMs: 10_000 })) as Grant;
    const { entries } = await here.take({ thread, grant: next });
    expect(entries.map(({ envelope, attempt }) => [envelope.signal.id, attempt])).toEqual([['s2', 1]]);
  });

  test('D1: an instance that closes leaves what waits to a peer, who is told', async () => {
    const { mailbox } = world();
    const [leaving, staying] = [mailbox('a'), mailbox('b')];
    const orphans: string[] = [];
    await leaving.listen('a', silent);
    await staying.listen('b', { ...silent, onOrphan: ({ threadId }) => void orphans.push(threadId) });
    await leaving.deliver(signal('s1'));
    orphans.length = 0;
    await leaving.close();
    expect(orphans).toEqual(['t']);
    expect(await staying.due(10)).toEqual([thread]);
    const grant = await staying.claim(thread, { owner: 'b/1', ttlMs: 10_000 });
    expect(await idsFor(staying, grant)).toEqual(['s1']);
    expect(await staying.deliver(signal('s1', 'b/2'))).toMatchObject({ duplicate: true });
  });

  test('an idle thread leaves nothing once its ids and its output are too old', async () => {
    const { clock, pubsub, mailbox } = world();
    const here = mailbox('a');
    const cleared: string[] = [];
    const clearTopic = pubsub.clearTopic.bind(pubsub);
    pubsub.clearTopic = topic => {
      cleared.push(topic);
      return clearTopic(topic);
    };
    const grant = (await here.deliver(signal('s1', 'a/1'))).grant as Grant;
    await here.append(thread, grant, [{ type: 'text' }]);
    await here.settle({ thread, grant, consumed: await entryIds(here, grant) });
    await clock.advance(59_000);
    await here.due(10);
    expect(await here.deliver(signal('s1', 'a/2'))).toMatchObject({ duplicate: true });
    await clock.advance(62_000);
    await here.due(10);
    expect(cleared).toEqual(['signals.output.r:t']);
    expect(await here.deliver(signal('s1', 'a/3'))).toMatchObject({ duplicate: false });
  });

  test('leases that tell nobody apart are refused when it is made', () => {
    const { pubsub } = world();
    expect(() => new PubSubMailbox({ pubsub, leases: NoopLeaseProvider, instanceId: 'a', limits })).toThrow(/leases must be/);
  });

  test('a claim in the name of another instance is refused', async () => {
    const { mailbox } = world();
    await expect(mailbox('a').deliver(signal('s', 'b/1'))).rejects.toMatchObject({ code: 'SIG_OPTION_INVALID' });
    await expect(mailbox('a').listen('b', silent)).rejects.toMatchObject({ code: 'SIG_OPTION_INVALID' });
  });
});

const silent = { onArrival() {}, onAbort() {}, onOrphan() {}, onResync() {} };

async function entryIds(mailbox: PubSubMailbox, grant: Grant): Promise<string[]> {
  return (await mailbox.take({ thread, grant })).entries.map(entry => entry.id);
}

/** As if the process behind a topic had died: what is published there is heard by nobody. */
async function silence(pubsub: EventEmitterPubSub, topic: string): Promise<void> {
  const publish = pubsub.publish.bind(pubsub);
  pubsub.publish = (name, event, options) => (name === topic ? Promise.resolve() : publish(name, event, options));
  await pubsub.flush();
}
