import { context, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { afterEach, expect, test } from 'vitest';

import type { RunFacts } from '../../../src/contracts/observer.ts';
import { SignalsError } from '../../../src/core/errors.ts';
import type { InstrumentationOptions } from '../../../src/telemetry/instrumentation.ts';
import { TelemetryObserver } from '../../../src/telemetry/observer.ts';
import { parentOf, startHarness } from './harness.ts';
import type { Harness } from './harness.ts';

const thread = { resourceId: 'user@example.org', threadId: 'conversation 1' };
const senderTrace = '0af7651916cd43dd8448eb211c80319c';
const senderSpan = 'b7ad6b7169203331';
const facts: RunFacts = {
  agentId: 'echo',
  runId: 'run-1',
  thread,
  fencingToken: 42,
  attempt: 1,
  signalCount: 1,
  trace: { traceparent: `00-${senderTrace}-${senderSpan}-01` },
};

let harness: Harness;
function observe(options: InstrumentationOptions = {}): TelemetryObserver {
  harness = startHarness(options);
  return new TelemetryObserver(harness.instrumentation);
}
afterEach(() => harness.stop());

function runOf(given: Partial<RunFacts>, options: InstrumentationOptions = {}) {
  observe(options).runStarted({ ...facts, ...given }).end('finished');
  const [span] = harness.spans('thread.run');
  return span!;
}

test('the first prompt delivery continues the trace of its sender', () => {
  const span = runOf({});
  expect(span.spanContext().traceId).toBe(senderTrace);
  expect(parentOf(span)).toBe(senderSpan);
  expect(span.links).toEqual([]);
});

test.each([
  ['a redelivery', { attempt: 2 }],
  ['a batch', { signalCount: 2 }],
  ['a late delivery', { waitedMs: 60_001 }],
])('%s starts a trace of its own that is linked to the sender', (_what, given) => {
  const span = runOf(given);
  expect(span.spanContext().traceId).not.toBe(senderTrace);
  expect(parentOf(span)).toBeUndefined();
  expect(span.links.map(link => link.context.spanId)).toEqual([senderSpan]);
});

test('a batch is linked to all of its senders', () => {
  const other = { traceparent: `00-1af7651916cd43dd8448eb211c80319c-a7ad6b7169203331-01` };
  const span = runOf({ signalCount: 2, otherTraces: [other, { traceparent: 'nonsense' }] });
  expect(span.links.map(link => link.context.spanId)).toEqual([senderSpan, 'a7ad6b7169203331']);
});

test('the rule for parent or link can be set', async () => {
  expect(runOf({ attempt: 3 }, { runTrace: 'parent' }).spanContext().traceId).toBe(senderTrace);
  await harness.stop();
  expect(runOf({}, { runTrace: 'link' }).spanContext().traceId).not.toBe(senderTrace);
});

test('a run never becomes part of the trace of whoever happened to start it', () => {
  const observer = observe();
  const bystander = harness.tracerProvider.getTracer('test').startSpan('bystander', {}, ROOT_CONTEXT);
  const { trace: _dropped, ...withoutTrace } = facts;
  context.with(trace.setSpan(ROOT_CONTEXT, bystander), () => observer.runStarted(withoutTrace).end('finished'));
  const [span] = harness.spans('thread.run');
  expect(span!.spanContext().traceId).not.toBe(bystander.spanContext().traceId);
  expect(parentOf(span!)).toBeUndefined();
});

test('what a run does appears under its span, also after it awaited', async () => {
  const observer = observe();
  const scope = observer.runStarted(facts);
  await scope.within(async () => {
    await Promise.resolve();
    harness.tracerProvider.getTracer('test').startSpan('tool call').end();
    expect(observer.carrier()?.['traceparent']).toContain(senderTrace);
  });
  scope.end('finished');
  expect(observer.carrier()).toBeUndefined();
  const [run] = harness.spans('thread.run');
  expect(parentOf(harness.spans('tool call')[0]!)).toBe(run!.spanContext().spanId);
});

test('a run shows who it was for and why it ended', async () => {
  const observer = observe();
  const scope = observer.runStarted(facts);
  expect(await harness.points('signals.run.active')).toEqual([{ attributes: {}, value: 1 }]);
  scope.end('lease_lost', new SignalsError('SIG_LEASE_LOST', 'lost'));
  scope.end('finished'); // late, and of no effect
  const [span] = harness.spans('thread.run');
  expect(span!.attributes).toMatchObject({
    'signals.agent.id': 'echo',
    'signals.thread.id': 'conversation 1',
    'signals.resource.id': 'user@example.org',
    'signals.run.id': 'run-1',
    'signals.run.attempt': 1,
    'signals.run.signal_count': 1,
    'signals.lease.fencing_token': 42,
    end_reason: 'lease_lost',
    'error.type': 'SIG_LEASE_LOST',
  });
  expect(span!.status).toEqual({ code: 2, message: 'lost' });
  expect(await harness.points('signals.run.active')).toEqual([{ attributes: {}, value: 0 }]);
  expect(await harness.points('signals.run.duration')).toMatchObject([
    { attributes: { end_reason: 'lease_lost' }, value: { count: 1 } },
  ]);
});

test('ids that may name a person can be hashed, and then appear nowhere', () => {
  const span = runOf({}, { hashIds: true });
  expect(span.attributes['signals.thread.id']).toMatch(/^[0-9a-f]{16}$/);
  expect(span.attributes['signals.resource.id']).toMatch(/^[0-9a-f]{16}$/);
  expect(JSON.stringify(span.attributes)).not.toMatch(/conversation|example/);
});

test('leases are counted from hold to end, by why they ended', async () => {
  const observer = observe();
  observer.held('a');
  observer.held('b');
  observer.renewed('a', 0.66);
  observer.ended('a', 'lost', 1500);
  observer.takenOver(thread);
  observer.routed('wake');
  expect(await harness.points('signals.lease.active')).toEqual([{ attributes: {}, value: 1 }]);
  expect(await harness.points('signals.lease.hold.duration')).toMatchObject([
    { attributes: { end_reason: 'lost' }, value: { count: 1, sum: 1.5 } },
  ]);
  expect(await harness.points('signals.lease.renewal.headroom')).toMatchObject([{ value: { count: 1, sum: 0.66 } }]);
  expect(await harness.points('signals.lease.takeovers')).toEqual([{ attributes: {}, value: 1 }]);
  const decisions = await harness.points('signals.route.decisions');
  expect(decisions.find(point => point.attributes['decision'] === 'wake')!.value).toBe(1);
  expect(decisions.find(point => point.attributes['decision'] === 'refused')!.value).toBe(0);
});
