import { context, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { afterEach, expect, test } from 'vitest';

import { isBatchLeaseProvider, NoopLeaseProvider } from '../../../src/contracts/lease-provider.ts';
import type { BatchLeaseProvider, HeldKey, LeaseProvider } from '../../../src/contracts/lease-provider.ts';
import { SignalsError } from '../../../src/core/errors.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import type { InstrumentationOptions } from '../../../src/telemetry/instrumentation.ts';
import { instrumentLeases } from '../../../src/telemetry/instrumented-leases.ts';
import { createSampler } from '../../../src/telemetry/setup/sampler.ts';
import { parentOf, startHarness } from './harness.ts';
import type { Harness } from './harness.ts';

const ttlMs = 15_000;
const away = new SignalsError('SIG_STORE_UNAVAILABLE', 'renew failed: connection refused');

let harness: Harness;
afterEach(() => harness.stop());

function instrumented(answers: Partial<BatchLeaseProvider>, options: Parameters<typeof startHarness>[0] = {}) {
  harness = startHarness(options);
  const inner: BatchLeaseProvider = {
    ...NoopLeaseProvider,
    acquireLease: (_key, owner) => Promise.resolve({ acquired: true, owner, fencingToken: 7 }),
    renewLeases: leases => Promise.resolve(leases.map(() => true)),
    ...answers,
  };
  return instrumentLeases(inner, harness.instrumentation);
}

const all: InstrumentationOptions = { renewalSampling: 1 };
const heldKeys = (count: number): HeldKey[] => Array.from({ length: count }, (_, at) => ({ key: `k${at}`, owner: 'a/1' }));

async function operations() {
  const points = await harness.points('signals.lease.operation.duration');
  return points.map(({ attributes, value }) => ({ ...attributes, count: (value as { count: number }).count }));
}

test('a renewal is a root that leads to the acquire of its lease, whoever is on the stack', async () => {
  const leases = instrumented({}, all);
  await leases.acquireLease('k', 'a/1', ttlMs);
  const bystander = harness.tracerProvider.getTracer('test').startSpan('bystander', {}, ROOT_CONTEXT);
  await context.with(trace.setSpan(ROOT_CONTEXT, bystander), () => leases.renewLease('k', 'a/1', ttlMs));
  const [acquire] = harness.spans('lease.acquire');
  const [renew] = harness.spans('lease.renew');
  expect(parentOf(renew!)).toBeUndefined();
  expect(renew!.spanContext().traceId).not.toBe(acquire!.spanContext().traceId);
  expect(renew!.links.map(link => link.context)).toEqual([acquire!.spanContext()]);
  expect(renew!.attributes).toMatchObject({
    outcome: 'renewed',
    'signals.lease.key': 'k',
    'signals.lease.owner': 'a/1',
    'signals.lease.fencing_token': 7,
    'signals.lease.ttl_ms': ttlMs,
  });
  const headroom = renew!.attributes['signals.lease.headroom'] as number;
  expect(headroom).toBeGreaterThan(0);
  expect(headroom).toBeLessThanOrEqual(1);
});

test('the store is asked outside the context of whoever is on the stack', async () => {
  let askedIn: unknown;
  const leases = instrumented({
    renewLeases: keys => {
      askedIn = trace.getActiveSpan();
      return Promise.resolve(keys.map(() => true));
    },
  });
  const bystander = harness.tracerProvider.getTracer('test').startSpan('bystander', {}, ROOT_CONTEXT);
  await context.with(trace.setSpan(ROOT_CONTEXT, bystander), () => leases.renewLeases(heldKeys(1), ttlMs));
  expect(askedIn).toBeUndefined();
});

test('of the renewals that succeed one in so many is shown, and all are counted', async () => {
  const leases = instrumented({}, { renewalSampling: 100 });
  for (let round = 0; round < 25; round++) await leases.renewLeases(heldKeys(10), ttlMs);
  expect(harness.spans('lease.renew')).toHaveLength(3);
  expect(await operations()).toEqual([{ operation: 'renew', outcome: 'renewed', count: 250 }]);
});

test('renewals that fail are always shown', async () => {
  const leases = instrumented({ renewLeases: keys => Promise.resolve(keys.map((_, at) => at !== 1)) }, { renewalSampling: 0 });
  await leases.renewLeases(heldKeys(3), ttlMs);
  const [lost, ...others] = harness.spans('lease.renew');
  expect(others).toEqual([]);
  expect(lost!.attributes).toMatchObject({ outcome: 'lost', end_reason: 'lost', 'signals.lease.key': 'k1' });
  expect(await operations()).toEqual([
    { operation: 'renew', outcome: 'renewed', count: 2 },
    { operation: 'renew', outcome: 'lost', count: 1 },
  ]);
});

test('failed renewals are kept whatever share of traces is', async () => {
  const environment = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' };
  const sampler = createSampler(environment, silentLogger);
  const leases = instrumented({ renewLease: () => Promise.resolve(false) }, { ...all, sampler });
  await leases.acquireLease('k', 'a/1', ttlMs);
  await leases.renewLease('k', 'a/1', ttlMs);
  expect(harness.spans().map(span => span.name)).toEqual(['lease.renew']);
  // Its acquire was not kept: a link would lead nowhere.
  expect(harness.spans()[0]!.links).toEqual([]);
});

test('sampling that is switched off stays off', async () => {
  const sampler = createSampler({ OTEL_TRACES_SAMPLER: 'always_off' }, silentLogger);
  const leases = instrumented({ renewLease: () => Promise.resolve(false) }, { ...all, sampler });
  await leases.renewLease('k', 'a/1', ttlMs);
  expect(harness.spans()).toEqual([]);
});

test('a batch that fails as a whole is one span for all its leases, each of them counted', async () => {
  const leases = instrumented({ renewLeases: () => Promise.reject(away) });
  for (const { key, owner } of heldKeys(200)) await leases.acquireLease(key, owner, ttlMs);
  await expect(leases.renewLeases(heldKeys(200), ttlMs)).rejects.toBe(away);
  const [span, ...others] = harness.spans('lease.renew');
  expect(others).toEqual([]);
  expect(span!.attributes).toMatchObject({ outcome: 'error', 'signals.lease.batch_size': 200, 'error.type': away.code });
  expect(span!.links).toHaveLength(64);
  expect(await operations()).toContainEqual({ operation: 'renew', outcome: 'error', 'error.type': away.code, count: 200 });
});

test('leases of a batch that could not be asked for do not count as lost', async () => {
  const leases = instrumented({ renewLeases: () => Promise.resolve([true, away, false]) }, { renewalSampling: 0 });
  expect(await leases.renewLeases(heldKeys(3), ttlMs)).toEqual([true, away, false]);
  expect(harness.spans('lease.renew').map(span => [span.attributes['outcome'], span.attributes['signals.lease.key']])).toEqual([
    ['lost', 'k2'],
    ['error', 'k1'],
  ]);
});

test('a store that is silent shows as a timeout', async () => {
  const silent = new SignalsError('SIG_STORE_UNAVAILABLE', 'renew gave no answer within 500 ms');
  const leases = instrumented({ renewLease: () => Promise.reject(silent) });
  await expect(leases.renewLease('k', 'a/1', ttlMs)).rejects.toBe(silent);
  expect(harness.spans('lease.renew')[0]!.attributes['outcome']).toBe('timeout');
});

test('an acquire shows whether it got the lease, had it, or who has it', async () => {
  const answers = [
    { acquired: true, fencingToken: 7 },
    { acquired: true, fencingToken: 7 },
    { acquired: false, owner: 'b/2' },
  ];
  const leases = instrumented({ acquireLease: () => Promise.resolve(answers.shift()!) });
  for (let round = 0; round < 3; round++) await leases.acquireLease('k', 'a/1', ttlMs);
  const spans = harness.spans('lease.acquire');
  expect(spans.map(span => span.attributes['outcome'])).toEqual(['acquired', 'already_owned', 'held']);
  expect(spans[2]!.attributes['signals.lease.current_owner']).toBe('b/2');
});

test('a transfer leads renewals to itself from then on, and a release ends that', async () => {
  const leases = instrumented({}, all);
  await leases.acquireLease('k', 'a/1', ttlMs);
  await leases.transferLease('k', 'a/1', 'a/2', ttlMs);
  await leases.renewLease('k', 'a/2', ttlMs);
  const [transfer] = harness.spans('lease.transfer');
  expect(transfer!.attributes).toMatchObject({
    outcome: 'transferred',
    'signals.lease.previous_owner': 'a/1',
    'signals.lease.owner': 'a/2',
  });
  expect(harness.spans('lease.renew')[0]!.links.map(link => link.context)).toEqual([transfer!.spanContext()]);
  await leases.releaseLease('k', 'a/2');
  expect(harness.instrumentation.leases.size).toBe(0);
});

test('a transfer that came too late says so', async () => {
  const leases = instrumented({ transferLease: () => Promise.resolve(false) });
  expect(await leases.transferLease('k', 'a/1', 'a/2', ttlMs)).toBe(false);
  expect(harness.spans('lease.transfer')[0]!.attributes['outcome']).toBe('not_owner');
});

test('a provider without batches stays one', () => {
  harness = startHarness();
  const single: LeaseProvider = instrumentLeases(NoopLeaseProvider, harness.instrumentation);
  expect(isBatchLeaseProvider(single)).toBe(false);
});
