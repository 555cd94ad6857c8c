/** Which traces are kept: `OTEL_TRACES_SAMPLER`, except that a failed renewal is never left out by chance. */

import type { Attributes, Context, Link, SpanKind } from '@opentelemetry/api';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  SamplingDecision,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import type { Sampler, SamplingResult } from '@opentelemetry/sdk-trace';

import type { Logger } from '../../core/logger.ts';
import { textOf } from './environment.ts';
import type { Environment } from './environment.ts';
import { keys, spanNames } from '../names.ts';

export function createSampler(environment: Environment, logger: Logger): Sampler {
  const name = textOf(environment['OTEL_TRACES_SAMPLER']) ?? 'parentbased_always_on';
  switch (name) {
    case 'always_on':
      return new AlwaysOnSampler();
    case 'always_off':
      return new AlwaysOffSampler();
    case 'parentbased_always_off':
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case 'traceidratio':
      return new FailureSampler(new TraceIdRatioBasedSampler(ratioOf(environment, logger)));
    case 'parentbased_traceidratio':
      return new FailureSampler(
        new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratioOf(environment, logger)) }),
      );
    default:
      logger.warn('telemetry setting is ignored', { variable: 'OTEL_TRACES_SAMPLER', value: name });
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
  }
}

/** Whether what is below a span is kept if and only if the span is; roots alone are decided on. */
export function leavesToParent(environment: Environment): boolean {
  return !['always_on', 'always_off', 'traceidratio'].includes(textOf(environment['OTEL_TRACES_SAMPLER']) ?? '');
}

function ratioOf(environment: Environment, logger: Logger): number {
  const text = textOf(environment['OTEL_TRACES_SAMPLER_ARG']);
  const ratio = Number(text ?? 1);
  if (ratio >= 0 && ratio <= 1) return ratio;
  logger.warn('telemetry setting is ignored', { variable: 'OTEL_TRACES_SAMPLER_ARG', value: text, allowed: '0 to 1' });
  return 1;
}

/** Keeps what the ratio keeps, and every renewal that failed: those are rare, and are what one looks for. */
class FailureSampler implements Sampler {
  readonly #ratio: Sampler;

  constructor(ratio: Sampler) {
    this.#ratio = ratio;
  }

  shouldSample(
    context: Context,
    traceId: string,
    name: string,
    kind: SpanKind,
    attributes: Attributes,
    links: Link[],
  ): SamplingResult {
    if (name === spanNames.leaseRenew && attributes[keys.outcome] !== 'renewed') {
      return { decision: SamplingDecision.RECORD_AND_SAMPLED };
    }
    return this.#ratio.shouldSample(context, traceId, name, kind, attributes, links);
  }

  toString(): string {
    return `Failures or ${this.#ratio.toString()}`;
  }
}
