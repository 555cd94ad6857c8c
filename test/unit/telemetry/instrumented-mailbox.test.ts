import { context, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';
import type { MailboxOperations } from '../../../src/contracts/mailbox-operations.ts';
import type { Span } from '@opentelemetry/api';
import { afterEach, beforeEach, expect, test } from 'vitest';

import type { Envelope } from '../../../src/contracts/signal.ts';
import { threadLeaseKey } from '../../../src/contracts/thread.ts';
import type { DeliverRequest, Delivery, Grant, SettleRequest, ThreadMailbox } from '../../../src/contracts/thread-mailbox.ts';
import { SignalsError } from '../../../src/core/errors.ts';
import { instrumentMailbox, instrumentOperations } from '../../../src/telemetry/instrumented-mailbox.ts';
import { observeDrain } from '../../../src/telemetry/lifecycle.ts';
import { TelemetryObserver } from '../../../src/telemetry/observer.ts';
import { parentOf, startHarness } from './harness.ts';
import type { Harness } from './harness.ts';
import { scriptedMailbox } from './scripted-mailbox.ts';

const thread = { resourceId: 'user', threadId: 'conversation' };
const key = threadLeaseKey(thread);
const claim = { owner: 'pod-a/run-1', ttlMs: 15_000 };
const nextClaim = { owner: 'pod-a/run-2', ttlMs: 15_000 };
const grantOf = (owner: string, fencingToken: number): Grant => ({
  key,
  owner,
  fencingToken,
  ttlMs: 15_000,
  askedAt: { monotonicMs: 0, wallMs: 0 },
});
const request: DeliverRequest = {
  thread,
  envelope: {
    agentId: 'echo',
    signal: { id: 'signal-1', type: 'user', contents: 'private words', createdAt: '2026-01-01T00:00:00.000Z' },
    turn: 'current',
  },
  ifActive: { behavior: 'deliver' },
  ifIdle: { behavior: 'wake' },
  claim,
};
const woke: Delivery = { action: 'wake', duplicate: false, owner: claim.owner, grant: grantOf(claim.owner, 7) };

let harness: Harness;
beforeEach(() => void (harness = startHarness()));
afterEach(() => harness.stop());

const instrumented = (answers: Partial<ThreadMailbox>) => instrumentMailbox(scriptedMailbox(answers), harness.instrumentation);
const delivering = (delivery: Delivery) => instrumented({ deliver: () => Promise.resolve(delivery) });
const settleRequest = (next?: typeof nextClaim): SettleRequest => ({
  thread,
  grant: grantOf(claim.owner, 7),
  consumed: ['1-0'],
  returned: [],
  ...(next ? { next } : {}),
});

function request1(): Span {
  return harness.tracerProvider.getTracer('test').startSpan('POST', {}, ROOT_CONTEXT);
}

async function operations() {
  const points = await harness.points('signals.lease.operation.duration');
  return points.map(point => point.attributes);
}

test('a signal that wakes a thread shows the decision and the acquired lease', async () => {
  const caller = request1();
  const mailbox = delivering({ ...woke, grant: { ...grantOf(claim.owner, 7), unownedMs: 250 } });
  await context.with(trace.setSpan(ROOT_CONTEXT, caller), () => mailbox.deliver(request));

  const [route] = harness.spans('signal.route');
  expect(parentOf(route!)).toBe(caller.spanContext().spanId);
  expect(route!.attributes).toMatchObject({
    decision: 'wake',
    'signals.agent.id': 'echo',
    'signals.thread.id': 'conversation',
    'signals.resource.id': 'user',
    'signals.signal.id': 'signal-1',
    'signals.signal.type': 'user',
    'signals.lease.owner': 'pod-a/run-1',
    'signals.lease.fencing_token': 7,
  });
  const [acquire] = harness.spans('lease.acquire');
  expect(parentOf(acquire!)).toBe(route!.spanContext().spanId);
  expect(acquire!.attributes).toMatchObject({
    outcome: 'acquired',
    'signals.lease.key': key,
    'signals.lease.owner': 'pod-a/run-1',
    'signals.lease.ttl_ms': 15_000,
    'signals.lease.fencing_token': 7,
    'signals.lease.unowned_ms': 250,
  });
  expect(await operations()).toEqual([{ operation: 'acquire', outcome: 'acquired' }]);
  expect(await harness.points('signals.lease.handoff.gap')).toMatchObject([{ value: { count: 1, sum: 0.25 } }]);
});

test('contents never reach a span', async () => {
  await delivering(woke).deliver(request);
  for (const span of harness.spans()) {
    expect(JSON.stringify([span.attributes, span.events, span.status])).not.toContain('private words');
  }
});

test('an acquire lies within the step that made it', async () => {
  await delivering(woke).deliver(request);
  const ns = ([seconds, nanos]: [number, number]) => BigInt(seconds) * 1_000_000_000n + BigInt(nanos);
  const [route] = harness.spans('signal.route');
  const [acquire] = harness.spans('lease.acquire');
  // The SDK anchors each span to a clock of whole milliseconds, so two spans may differ by one.
  const anchorNs = 1_000_000n;
  expect(ns(acquire!.startTime)).toBeGreaterThanOrEqual(ns(route!.startTime) - anchorNs);
  expect(ns(acquire!.endTime)).toBeLessThanOrEqual(ns(route!.endTime) + anchorNs);
});

test('what travels with the signal is the span of its routing', async () => {
  let sent: Envelope | undefined;
  const mailbox = instrumented({
    deliver: ({ envelope }) => {
      sent = envelope;
      return Promise.resolve(woke);
    },
  });
  await mailbox.deliver(request);
  const { traceId, spanId } = harness.spans('signal.route')[0]!.spanContext();
  expect(sent?.trace?.['traceparent']).toBe(`00-${traceId}-${spanId}-01`);
});

test('without a request that is being served, the trace that came with the signal is continued', async () => {
  const envelope = { ...request.envelope, trace: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' } };
  await delivering(woke).deliver({ ...request, envelope });
  expect(harness.spans('signal.route')[0]!.spanContext().traceId).toBe('0af7651916cd43dd8448eb211c80319c');
});

test.each<[string, Delivery, string | undefined]>([
  ['a thread that another owns', { action: 'deliver', duplicate: false, owner: 'pod-b/run-9' }, 'held'],
  ['a signal that does not wake', { action: 'persist', duplicate: false }, undefined],
  ['a signal that was accepted before', { action: 'wake', duplicate: true, owner: 'pod-b/run-9' }, undefined],
])('%s: the acquire is shown only if there was one', async (_what, delivery, outcome) => {
  await delivering(delivery).deliver(request);
  const acquires = harness.spans('lease.acquire');
  expect(acquires.map(span => span.attributes['outcome'])).toEqual(outcome ? [outcome] : []);
  if (outcome) expect(acquires[0]!.attributes['signals.lease.current_owner']).toBe('pod-b/run-9');
  expect(harness.spans('signal.route')[0]!.attributes['decision']).toBe(delivery.duplicate ? 'duplicate' : delivery.action);
});

test.each([
  ['a store that fails', new SignalsError('SIG_STORE_UNAVAILABLE', 'deliver failed: connection refused'), 'error', 'error'],
  ['a store that is silent', new SignalsError('SIG_STORE_UNAVAILABLE', 'deliver failed', { cause: new Error('Command timed out') }), 'error', 'timeout'],
  ['an inbox that is full', new SignalsError('SIG_INBOX_FULL', 'full'), 'refused', undefined],
])('%s is shown as what it is, and the error passes through', async (_what, error, decision, outcome) => {
  const mailbox = instrumented({ deliver: () => Promise.reject(error) });
  await expect(mailbox.deliver(request)).rejects.toBe(error);
  const [route] = harness.spans('signal.route');
  expect(route!.attributes).toMatchObject({ decision, 'error.type': error.code });
  expect(route!.status.code).toBe(SpanStatusCode.ERROR);
  const expected = outcome ? [{ operation: 'acquire', outcome, 'error.type': error.code }] : [];
  expect(await operations()).toEqual(expected);
});

test('a claim shows whether it got the thread', async () => {
  const answers = [grantOf(claim.owner, 7), undefined];
  const mailbox = instrumented({ claim: () => Promise.resolve(answers.shift()) });
  await mailbox.claim(thread, claim);
  await mailbox.claim(thread, claim);
  expect(harness.spans('lease.acquire').map(span => span.attributes['outcome'])).toEqual(['acquired', 'held']);
});

test('the end of a run with more waiting is a transfer from owner to owner, under the run that ended', async () => {
  const mailbox = instrumented({
    deliver: () => Promise.resolve(woke),
    settle: () => Promise.resolve({ grant: grantOf(nextClaim.owner, 8), waiting: 1 }),
  });
  await mailbox.deliver(request);
  const observer = new TelemetryObserver(harness.instrumentation);
  const scope = observer.runStarted({ agentId: 'echo', runId: 'run-1', thread, attempt: 1, signalCount: 1 });
  scope.end('finished');
  const bystander = request1();
  await context.with(trace.setSpan(ROOT_CONTEXT, bystander), () => mailbox.settle(settleRequest(nextClaim)));

  const [transfer] = harness.spans('lease.transfer');
  expect(parentOf(transfer!)).toBe(harness.spans('thread.run')[0]!.spanContext().spanId);
  expect(transfer!.attributes).toMatchObject({
    outcome: 'transferred',
    end_reason: 'transferred',
    'signals.lease.previous_owner': 'pod-a/run-1',
    'signals.lease.owner': 'pod-a/run-2',
    'signals.lease.fencing_token': 8,
    'signals.inbox.waiting': 1,
    'signals.run.consumed_count': 1,
  });
  expect(harness.instrumentation.leases.of(key, 'pod-a/run-2')?.acquiredIn).toEqual(transfer!.spanContext());
});

test('a run leads to where its lease was acquired when that is another trace', async () => {
  const mailbox = instrumented({ claim: () => Promise.resolve(grantOf(claim.owner, 7)) });
  await mailbox.claim(thread, claim);
  new TelemetryObserver(harness.instrumentation)
    .runStarted({ agentId: 'echo', runId: 'run-1', thread, attempt: 1, signalCount: 1 })
    .end('finished');
  const [acquire] = harness.spans('lease.acquire');
  expect(harness.spans('thread.run')[0]!.links.map(link => link.context.spanId)).toEqual([acquire!.spanContext().spanId]);
});

test('a run in the trace of its own acquire needs no link to it', async () => {
  let sent: Envelope | undefined;
  const mailbox = instrumented({
    deliver: ({ envelope }) => {
      sent = envelope;
      return Promise.resolve(woke);
    },
  });
  await mailbox.deliver(request);
  new TelemetryObserver(harness.instrumentation)
    .runStarted({ agentId: 'echo', runId: 'run-1', thread, attempt: 1, signalCount: 1, trace: sent!.trace! })
    .end('finished');
  const [run] = harness.spans('thread.run');
  expect(run!.spanContext().traceId).toBe(harness.spans('lease.acquire')[0]!.spanContext().traceId);
  expect(run!.links).toEqual([]);
});

test.each([
  ['released', undefined, { waiting: 0 }, 'lease.release', 'released'],
  ['released though a next run was offered', nextClaim, { waiting: 0 }, 'lease.release', 'released'],
])('the end of a run with nothing waiting is a release: %s', async (_what, next, settlement, name, outcome) => {
  const mailbox = instrumented({ deliver: () => Promise.resolve(woke), settle: () => Promise.resolve(settlement) });
  await mailbox.deliver(request);
  await mailbox.settle(settleRequest(next));
  const [span] = harness.spans(name);
  expect(span!.attributes['outcome']).toBe(outcome);
  expect(span!.links.map(link => link.context.spanId)).toEqual([harness.spans('lease.acquire')[0]!.spanContext().spanId]);
  expect(harness.instrumentation.leases.size).toBe(0);
});

test.each([
  ['SIG_LEASE_LOST', nextClaim, 'lease.transfer', 'not_owner', 1],
  ['SIG_LEASE_LOST', undefined, 'lease.release', 'not_owner', 1],
  ['SIG_LEASE_EXPIRED', undefined, 'lease.release', 'expired', 0],
  ['SIG_STORE_UNAVAILABLE', nextClaim, 'lease.transfer', 'error', 0],
  ['SIG_STORE_UNAVAILABLE', undefined, 'lease.release', 'error', 0],
] as const)('an end of a run that fails with %s is not shown as done', async (code, next, name, outcome, rejections) => {
  const mailbox = instrumented({ settle: () => Promise.reject(new SignalsError(code, 'no')) });
  await expect(mailbox.settle(settleRequest(next))).rejects.toMatchObject({ code });
  expect(harness.spans().map(span => [span.name, span.attributes['outcome']])).toEqual([[name, outcome]]);
  expect(await harness.points('signals.lease.fence.rejections')).toEqual([{ attributes: {}, value: rejections }]);
});

test('refused writes of a stale owner are counted, others are not', async () => {
  const stale = () => Promise.reject(new SignalsError('SIG_LEASE_LOST', 'stale'));
  const mailbox = instrumented({ take: stale, append: stale });
  const grant = grantOf(claim.owner, 7);
  await expect(mailbox.take({ thread, grant })).rejects.toThrow('stale');
  await expect(mailbox.append(thread, grant, [])).rejects.toThrow('stale');
  const failing = instrumented({ append: () => Promise.reject(new SignalsError('SIG_STORE_UNAVAILABLE', 'away')) });
  await expect(failing.append(thread, grant, [])).rejects.toThrow('away');
  expect(await harness.points('signals.lease.fence.rejections')).toEqual([{ attributes: {}, value: 2 }]);
});

test('signals that are given again, or given up, are counted', async () => {
  const entry = (id: string, attempt: number) => ({ id, attempt, envelope: request.envelope, waking: true });
  const entries = [entry('1-0', 1), entry('2-0', 2), entry('3-0', 3)];
  const mailbox = instrumented({
    take: () => Promise.resolve({ entries, cursor: '3-0', abortRequested: false, deadLettered: 4 }),
  });
  await mailbox.take({ thread, grant: grantOf(claim.owner, 7) });
  expect(await harness.points('signals.stream.redeliveries')).toEqual([{ attributes: {}, value: 2 }]);
  expect(await harness.points('signals.stream.dead_letters')).toEqual([{ attributes: {}, value: 4 }]);
});

test('S4: each signal that leaves the mailbox is counted, by how', async () => {
  const grant = grantOf(claim.owner, 7);
  const mailbox = instrumented({
    deliver: () => Promise.resolve({ action: 'discard', duplicate: false }),
    take: () => Promise.resolve({ entries: [], cursor: '1-0', abortRequested: false, deadLettered: 2 }),
    settle: () => Promise.resolve({ waiting: 0 }),
    abort: () => Promise.resolve({ aborted: true, cancelledSignalIds: ['a', 'b', 'c'] }),
  });
  await mailbox.deliver(request);
  await mailbox.take({ thread, grant });
  await mailbox.settle({ thread, grant, consumed: ['1-0', '2-0', '3-0', '4-0', '5-0'] });
  await mailbox.abort(thread);
  const cancel = () => Promise.resolve(['d', 'e', 'f', 'g']);
  await instrumentOperations({ cancel } as unknown as MailboxOperations, harness.instrumentation).cancel(thread);
  // Nothing is counted that was accepted before, or that did not happen.
  await delivering({ action: 'discard', duplicate: true }).deliver(request);
  await expect(instrumented({ settle: () => Promise.reject(new Error('no')) }).settle(settleRequest())).rejects.toThrow('no');
  const points = await harness.points('signals.inbox.ended');
  expect(Object.fromEntries(points.map(({ attributes, value }) => [attributes['outcome'], value]))).toEqual({
    settled: 5, discarded: 8, dead_lettered: 2,
  });
});

test('the arguments of a Redis command never reach a span', async () => {
  const reply = Object.assign(new Error('ERR script failed'), { command: { name: 'evalsha', args: ['private words'] } });
  const error = new SignalsError('SIG_STORE_UNAVAILABLE', 'deliver failed: ERR script failed', { cause: reply });
  await expect(instrumented({ deliver: () => Promise.reject(error) }).deliver(request)).rejects.toBe(error);
  for (const span of harness.spans()) {
    expect(JSON.stringify([span.attributes, span.events, span.status])).not.toContain('private words');
  }
});

test('what a drain gives up appears under it and is counted', async () => {
  const mailbox = instrumented({ deliver: () => Promise.resolve(woke), settle: () => Promise.resolve({ waiting: 0 }) });
  await mailbox.deliver(request);
  // The thread's own work goes on in the context of whoever woke it, not in that of the drain.
  const bystander = request1();
  await observeDrain(harness.instrumentation, async () => {
    await context.with(trace.setSpan(ROOT_CONTEXT, bystander), () => mailbox.settle(settleRequest()));
    return { abandoned: 2 };
  });
  const [drain] = harness.spans('runtime.drain');
  expect(parentOf(harness.spans('lease.release')[0]!)).toBe(drain!.spanContext().spanId);
  const leases = await harness.points('signals.drain.leases');
  expect(Object.fromEntries(leases.map(point => [point.attributes['outcome'], point.value]))).toEqual({
    transferred: 0,
    released: 1,
    abandoned: 2,
  });
  expect(await harness.points('signals.drain.duration')).toMatchObject([{ value: { count: 1 } }]);
});

test('hints are heard outside the context of whoever began to listen', async () => {
  let heardIn: string | undefined;
  const mailbox = instrumented({
    listen: () => {
      heardIn = trace.getActiveSpan()?.spanContext().spanId;
      return Promise.resolve(() => Promise.resolve());
    },
  });
  const listener = { onArrival() {}, onAbort() {}, onOrphan() {}, onResync() {} };
  await context.with(trace.setSpan(ROOT_CONTEXT, request1()), () => mailbox.listen('pod-a', listener));
  expect(heardIn).toBeUndefined();
});

test.each([
  ['a peer took it', true, [{ operation: 'transfer', outcome: 'transferred' }], 'transferred'],
  ['nobody took it', false, [{ operation: 'transfer', outcome: 'no_candidate' }, { operation: 'release', outcome: 'released' }], 'released'],
] as const)('an offered lease is shown as what became of it: %s', async (_what, taken, expected, drained) => {
  const lost = new SignalsError('SIG_LEASE_LOST', 'a peer has it');
  const mailbox = instrumented({
    settle: ({ offerMs }) =>
      offerMs ? Promise.resolve({ waiting: 1, offered: true }) : taken ? Promise.reject(lost) : Promise.resolve({ waiting: 1 }),
  });
  await observeDrain(harness.instrumentation, async () => {
    const offered = settleRequest();
    await mailbox.settle({ ...offered, offerMs: 1000 });
    expect(await operations()).toEqual([]); // nothing has become of it yet
    await mailbox.settle({ thread, grant: offered.grant, consumed: [] }).catch(() => {});
    return { abandoned: 0 };
  });
  expect(await operations()).toEqual(expected);
  const leases = await harness.points('signals.drain.leases');
  expect(leases.find(point => point.attributes['outcome'] === drained)).toMatchObject({ value: 1 });
  const rejections = await harness.points('signals.lease.fence.rejections');
  expect(rejections.every(point => point.value === 0)).toBe(true);
});
