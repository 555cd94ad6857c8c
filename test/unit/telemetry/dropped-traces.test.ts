/** Most traces are not kept. What lies below a span that was dropped is not made to be dropped as well, and nothing else changes. */

import { context, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { AlwaysOnSampler, ParentBasedSampler, SamplingDecision } from '@opentelemetry/sdk-trace';
import type { Sampler } from '@opentelemetry/sdk-trace';
import { afterEach, expect, test } from 'vitest';

import { carrierOf } from '../../../src/telemetry/observer.ts';
import { startHarness } from './harness.ts';
import type { Harness } from './harness.ts';

let harness: Harness;
afterEach(() => harness.stop());

/** Drops the roots of this name, and lets children follow. Counts what it was asked. */
class Dropping implements Sampler {
  asked = 0;

  shouldSample(_context: unknown, _traceId: string, name: string) {
    this.asked++;
    return { decision: name === 'dropped' ? SamplingDecision.NOT_RECORD : SamplingDecision.RECORD_AND_SAMPLED };
  }

  toString(): string {
    return 'Dropping';
  }
}

function begin(root: string, options: { parentDecides?: boolean } = { parentDecides: true }) {
  const roots = new Dropping();
  harness = startHarness({ ...options, sampler: new ParentBasedSampler({ root: roots }) });
  return { roots, ...harness.instrumentation.startSpan(root, {}, ROOT_CONTEXT) };
}

test('below a dropped span there is none: its context is handed on, and so is its trace to others', () => {
  const { span, within } = begin('dropped');
  const child = harness.instrumentation.startSpan('child', {}, within);
  expect(child).toEqual({ span, within });
  child.span.setAttribute('a', 1).end();
  expect(harness.spans()).toEqual([]);
  expect(carrierOf(child.within)?.['traceparent']).toBe(`00-${span.spanContext().traceId}-${span.spanContext().spanId}-00`);
});

test('below a kept span there is one', () => {
  const { span, within } = begin('kept');
  const child = harness.instrumentation.startSpan('child', {}, within);
  for (const one of [child.span, span]) one.end();
  expect(harness.spans('child')[0]?.parentSpanContext?.spanId).toBe(span.spanContext().spanId);
  expect(trace.getSpan(child.within)).toBe(child.span);
});

test('a root is always asked for, also while a dropped one is current', () => {
  const { roots, within } = begin('dropped');
  context.with(within, () => harness.instrumentation.startSpan('root of its own', {}, ROOT_CONTEXT).span.end());
  expect(roots.asked).toBe(2);
  expect(harness.spans('root of its own').length).toBe(1);
});

test('where the sampler may keep what lies below, it is asked', () => {
  harness = startHarness({ sampler: new AlwaysOnSampler() });
  const remote = trace.setSpanContext(ROOT_CONTEXT, { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 0 });
  harness.instrumentation.startSpan('child', {}, remote).span.end();
  expect(harness.spans('child').length).toBe(1);
});
