/**
 * One signal from its request to its end, over the death of its owner (case 49): it wakes a thread on pod A, is followed up from
 * pod B, A is killed, and C runs it again. What a person on call looks for has to be there and to lead from one to the next, in
 * what the pods send and in what a real Jaeger makes of it.
 */

import { expect, test } from 'vitest';

import { gateAt } from '../support/agents/gated-agent.ts';
import { jaegerBinary, startJaeger } from '../support/jaeger.ts';
import { Fleet } from '../support/fleet.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { jaegerSpans, receivedSpans } from '../support/seen-spans.ts';
import type { SeenSpan, SpanStore } from '../support/seen-spans.ts';
import { until } from '../support/until.ts';

const resourceId = 'user';
const thread = { resourceId, threadId: 'thread' };
/** What the senders bring along: their own traces and spans. */
const woke = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' };
const followed = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };

interface Journey {
  /** Of the request that woke the thread, of the one that followed, and of the run that came to an end. */
  readonly first: readonly SeenSpan[];
  readonly second: readonly SeenSpan[];
  readonly run: readonly SeenSpan[];
  readonly acquires: readonly SeenSpan[];
  readonly renewals: readonly SeenSpan[];
}

async function journey(store: SpanStore, env: Record<string, string> = {}): Promise<Journey> {
  const fleet = await Fleet.start();
  const gate = gateAt(fleet.redis.url);
  const pod = (name: string, more: Record<string, string> = {}) =>
    fleet.pod(name, {
      OTEL_EXPORTER_OTLP_ENDPOINT: store.otlpUrl,
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_BSP_SCHEDULE_DELAY: '50',
      TRACE_RENEWALS: '1',
      AGENT_MODULE: new URL('../support/agents/gated-agent.ts', import.meta.url).pathname,
      GATE_REDIS_URL: fleet.redis.url,
      MASTRA_AGENT_THREAD_LEASE_TTL_MS: '5000',
      MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS: '500',
      ...env,
      ...more,
    });
  try {
    const [a, b, c] = await Promise.all([pod('a'), pod('b', { MAX_RUNS: '1' }), pod('c')]);
    await send(a, thread.threadId, 'first', woke);
    await gate.entered('first');
    await send(b, thread.threadId, 'second', followed);
    // B is full then, so that it is C that takes over.
    await send(b, 'other', 'busy');
    await gate.entered('busy');
    // What a pod has not sent dies with it.
    await until('both requests were seen', async () => hasRequest(await store.trace(woke.traceId)) && hasRequest(await store.trace(followed.traceId)));
    await until('a renewal of the lease was seen', async () => (await store.named('lease.renew')).some(span => span.instance.startsWith('a.')));
    a.kill('SIGKILL');
    await a.exited();
    await until('the thread is with C', async () => (await fleet.owner(thread))?.startsWith('c.'));
    await gate.open();
    await fleet.idle(thread);
    c.kill('SIGTERM');
    expect(await c.exited()).toBe(0);
    const ofC = async () => (await store.named('thread.run')).filter(span => span.instance.startsWith('c.'));
    await until('the run on C was seen', async () => (await ofC()).length > 0);
    const [run] = await ofC();
    await until('its end was seen', async () => (await store.trace(run!.traceId)).some(span => span.name === 'lease.release'));
    return {
      first: await store.trace(woke.traceId),
      second: await store.trace(followed.traceId),
      run: await store.trace(run!.traceId),
      acquires: await store.named('lease.acquire'),
      renewals: await store.named('lease.renew'),
    };
  } finally {
    await gate.close();
    await fleet.stop();
  }
}

const hasRequest = (spans: readonly SeenSpan[]) => spans.some(span => span.name.startsWith('POST'));

async function send(pod: RuntimeProcess, threadId: string, message: string, sender?: typeof woke): Promise<void> {
  const response = await fetch(`${pod.url}/api/agents/gated/send-message`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(sender ? { traceparent: `00-${sender.traceId}-${sender.spanId}-01` } : {}) },
    body: JSON.stringify({ message, resourceId, threadId }),
  });
  expect(response.status).toBe(200);
}

/** The pod and the name of each, sorted. */
const shapeOf = (spans: readonly SeenSpan[]) => spans.map(({ instance, name }) => `${instance.split('.')[0]}: ${name}`).sort();

function only(spans: readonly SeenSpan[], name: string, pod = ''): SeenSpan {
  const found = spans.filter(span => span.name.startsWith(name) && span.instance.startsWith(pod));
  expect(found.length, `${name} of ${pod || 'any pod'}`).toBe(1);
  return found[0]!;
}

const token = (span: SeenSpan) => span.attributes['signals.lease.fencing_token'] as number;
const request = 'POST /api/agents/:agentId/send-message';

/** By the rule: what was cut short runs in a trace of its own, which leads to those of its signals and to its lease. */
function expectLinks({ first, second, run: runTrace, acquires, renewals }: Journey): void {
  expect(shapeOf(first)).toEqual([`a: ${request}`, 'a: lease.acquire', 'a: signal.route']);
  expect(only(first, 'POST').parentSpanId).toBe(woke.spanId);
  const route = only(first, 'signal.route');
  expect(route.parentSpanId).toBe(only(first, 'POST').spanId);
  expect(route.attributes).toMatchObject({ decision: 'wake', 'signals.thread.id': 'thread', 'signals.agent.id': 'gated' });
  const acquire = only(first, 'lease.acquire');
  expect(acquire.parentSpanId).toBe(route.spanId);
  expect(acquire.attributes).toMatchObject({ outcome: 'acquired', 'signals.lease.ttl_ms': 5000 });
  expect(acquire.attributes['signals.lease.owner']).toMatch(`${acquire.instance}/`);

  expect(shapeOf(second)).toEqual([`b: ${request}`, 'b: lease.acquire', 'b: signal.route']);
  const followUp = only(second, 'signal.route');
  expect(only(second, 'POST').parentSpanId).toBe(followed.spanId);
  expect(followUp.parentSpanId).toBe(only(second, 'POST').spanId);
  expect(followUp.attributes).toMatchObject({ decision: 'deliver' });
  expect(only(second, 'lease.acquire').attributes).toMatchObject({
    outcome: 'held',
    'signals.lease.current_owner': acquire.attributes['signals.lease.owner'],
  });

  const ofA = renewals.filter(span => span.instance === acquire.instance);
  expect(ofA.length).toBeGreaterThan(0);
  for (const renewal of ofA) {
    expect(renewal).toMatchObject({ linkedTo: [acquire.spanId], attributes: { outcome: 'renewed' } });
    expect(renewal.parentSpanId).toBeUndefined();
    expect(renewal.attributes['signals.lease.headroom']).toBeGreaterThan(0);
  }

  expect(shapeOf(runTrace)).toEqual(['c: lease.release', 'c: thread.run']);
  const run = only(runTrace, 'thread.run');
  const takeover = acquires.filter(span => span.instance === run.instance && span.attributes['outcome'] === 'acquired');
  expect(takeover.length).toBe(1);
  expect(takeover[0]!.parentSpanId).toBeUndefined();
  expect(run.parentSpanId).toBeUndefined();
  expect(new Set(run.linkedTo)).toEqual(new Set([route.spanId, followUp.spanId, takeover[0]!.spanId]));
  expect(run.attributes).toMatchObject({ 'signals.run.attempt': 2, 'signals.run.signal_count': 2, end_reason: 'finished' });
  expect(token(run)).toBe(token(takeover[0]!));
  expect(token(run)).toBeGreaterThan(token(acquire));
  const release = only(runTrace, 'lease.release');
  expect(release.parentSpanId).toBe(run.spanId);
  expect(release.attributes).toMatchObject({ outcome: 'released', end_reason: 'released', 'signals.run.consumed_count': 2 });
}

/** With runs set to continue their signal's trace, the crash and what came of it are in that trace. */
function expectOneTrace({ first, run: runTrace }: Journey): void {
  expect(shapeOf(first)).toEqual([`a: ${request}`, 'a: lease.acquire', 'a: signal.route', 'c: lease.release', 'c: thread.run']);
  expect(shapeOf(runTrace)).toEqual(shapeOf(first));
  const run = only(first, 'thread.run', 'c.');
  expect(run.parentSpanId).toBe(only(first, 'signal.route', 'a.').spanId);
  expect(only(first, 'lease.release', 'c.').parentSpanId).toBe(run.spanId);
}

const services = ({ first, second, run }: Journey) => new Set([...first, ...second, ...run].map(span => span.service));

const jaeger = jaegerBinary();
const stores: [string, (() => Promise<SpanStore>) | undefined][] = [
  ['what the pods send', async () => receivedSpans(await startOtlpReceiver())],
  ['a real Jaeger', jaeger === undefined ? undefined : async () => jaegerSpans(await startJaeger(jaeger))],
];

for (const [name, start] of stores) {
  test.skipIf(start === undefined)(`in ${name}, a signal can be followed over the death of its owner`, async () => {
    const store = await start!();
    try {
      const seen = await journey(store);
      expect(services(seen)).toEqual(new Set(['signals-runtime']));
      expectLinks(seen);
    } finally {
      await store.stop();
    }
  });

  test.skipIf(start === undefined)(`in ${name}, a run that is told to continue its signal's trace does so over the death of its owner`, async () => {
    const store = await start!();
    try {
      expectOneTrace(await journey(store, { TRACE_RUNS: 'parent' }));
    } finally {
      await store.stop();
    }
  });
}
