/**
 * Spans and metrics of the messaging conventions. The API only: without an SDK all of it does nothing. No topic, event
 * or run id is on any metric, since topics hold thread ids and there may be any number of them.
 */

import { context, metrics, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Attributes, Context, Counter, Histogram, Link, Span, Tracer } from '@opentelemetry/api';

import type { Event } from '../../contracts/pubsub.ts';
import type { TraceCarrier } from '../../contracts/signal.ts';
import { errorMessage } from '../../core/errors.ts';
import type { DecodedEntry } from './codec.ts';

/** A delivery later than this starts a trace of its own: the sender's is over and may have been exported and forgotten. */
const promptMs = 30_000;

/** Senders that one span of settling leads to: the specification's own limit is twice as many. */
const maxLinks = 64;

const system = { 'messaging.system.name': 'redis_streams' };

export interface ReaderProgress {
  /** Seconds since the server last answered each reader, by node. */
  (): { node: string; ageS: number }[];
}

export class StreamTelemetry {
  readonly #tracer: Tracer = trace.getTracer('signals-runtime');
  readonly #operation: Histogram;
  readonly #process: Histogram;
  readonly #sent: Counter;
  readonly #consumed: Counter;
  readonly #redeliveries: Counter;
  readonly #deadLetters: Counter;
  readonly #trimmed: Counter;
  readonly #undecodable: Counter;
  readonly #stopProgress: () => void;

  constructor(progress: ReaderProgress) {
    const meter = metrics.getMeter('signals-runtime');
    this.#operation = meter.createHistogram('messaging.client.operation.duration', { unit: 's' });
    this.#process = meter.createHistogram('messaging.process.duration', { unit: 's' });
    this.#sent = meter.createCounter('messaging.client.sent.messages', { unit: '{message}' });
    this.#consumed = meter.createCounter('messaging.client.consumed.messages', { unit: '{message}' });
    this.#redeliveries = meter.createCounter('signals.stream.redeliveries', { unit: '{event}' });
    this.#deadLetters = meter.createCounter('signals.stream.dead_letters', { unit: '{event}' });
    this.#trimmed = meter.createCounter('signals.stream.trimmed', { unit: '{event}' });
    this.#undecodable = meter.createCounter('signals.stream.undecodable', { unit: '{event}' });
    const gauge = meter.createObservableGauge('signals.stream.reader.progress.age', {
      unit: 's',
      description: 'Time since the server last answered this reader. Grows while it hears nothing.',
    });
    const observe = (result: { observe(value: number, attributes?: Attributes): void }) => {
      for (const { node, ageS } of progress()) result.observe(ageS, { 'signals.redis.node': node });
    };
    gauge.addCallback(observe);
    this.#stopProgress = () => gauge.removeCallback(observe);
  }

  close(): void {
    this.#stopProgress();
  }

  /** `send` gets the trace context that travels in the entry. */
  async publish(topic: string, event: Event, send: (carrier: TraceCarrier | undefined) => Promise<void>): Promise<void> {
    const startedMs = performance.now();
    const span = this.#tracer.startSpan(`send ${topic}`, {
      kind: SpanKind.PRODUCER,
      attributes: { ...attributesOf('send', topic), 'messaging.message.id': event.id },
    });
    const metricAttributes: Attributes = { ...system, 'messaging.operation.name': 'send' };
    try {
      await send(injected(trace.setSpan(context.active(), span)));
    } catch (error) {
      metricAttributes['error.type'] = errorType(error);
      span.setStatus({ code: SpanStatusCode.ERROR, message: errorMessage(error) });
      throw error;
    } finally {
      span.end();
      this.#sent.add(1, metricAttributes);
      this.#operation.record((performance.now() - startedMs) / 1000, metricAttributes);
    }
  }

  /** Runs a handler within the span of its delivery. `done` is told when the handler is through, and how. */
  process(topic: string, group: string | undefined, decoded: DecodedEntry, attempt: number): ProcessScope {
    this.#consumed.add(1, { ...system, 'messaging.operation.name': 'process' });
    if (attempt > 1) this.#redeliveries.add(1);
    const startedMs = performance.now();
    const sender = decoded.trace ? propagation.extract(ROOT_CONTEXT, decoded.trace) : undefined;
    const senderSpan = sender && trace.getSpanContext(sender);
    const prompt = attempt === 1 && Date.now() - createdMs(decoded.event) < promptMs;
    const links: Link[] = senderSpan && !prompt ? [{ context: senderSpan }] : [];
    const parent: Context = sender && prompt ? sender : ROOT_CONTEXT;
    const span = this.#tracer.startSpan(
      `process ${topic}`,
      { kind: SpanKind.CONSUMER, links, attributes: processAttributes(topic, group, decoded.event, attempt) },
      parent,
    );
    // Without an SDK there is no context to hand on.
    const scope = span.isRecording() || sender ? trace.setSpan(parent, span) : parent;
    return new ProcessScope(scope, span, error => {
      const attributes: Attributes = { ...system, 'messaging.operation.name': 'process' };
      if (error !== undefined) attributes['error.type'] = errorType(error);
      this.#process.record((performance.now() - startedMs) / 1000, attributes);
    });
  }

  /**
   * Before entries of a topic are acked or nacked, all that go in one command. Answers what to call when the server has answered, or
   * has not. A root: acks of many handlers go together, and none of them is the reason.
   */
  settling(operation: 'ack' | 'nack', topic: string, group: string, entries: readonly { decoded: DecodedEntry }[]): (error?: unknown) => void {
    const startedMs = performance.now();
    // From the start: samplers see no others, nor does what hashes topics.
    const attributes = settleAttributes(operation, topic, group, entries);
    const span = this.#tracer.startSpan(`${operation} ${topic}`, { kind: SpanKind.CLIENT, attributes }, ROOT_CONTEXT);
    if (span.isRecording()) span.addLinks(entries.slice(0, maxLinks).flatMap(({ decoded }) => linkTo(decoded.trace)));
    return error => {
      const metricAttributes: Attributes = { ...system, 'messaging.operation.name': operation, 'messaging.operation.type': 'settle' };
      if (error !== undefined) {
        metricAttributes['error.type'] = errorType(error);
        span.setStatus({ code: SpanStatusCode.ERROR, message: errorMessage(error) });
      }
      span.end();
      this.#operation.record((performance.now() - startedMs) / 1000, metricAttributes);
    };
  }

  dropped(count = 1): void {
    this.#deadLetters.add(count);
  }

  trimmed(count: number): void {
    this.#trimmed.add(count);
  }

  undecodable(): void {
    this.#undecodable.add(1);
  }
}

export class ProcessScope {
  readonly #context: Context;
  readonly #span: Span;
  readonly #record: (error: unknown) => void;

  constructor(scope: Context, span: Span, record: (error: unknown) => void) {
    this.#context = scope;
    this.#span = span;
    this.#record = record;
  }

  run<T>(work: () => T): T {
    return context.with(this.#context, work);
  }

  end(error?: unknown): void {
    if (error !== undefined) this.#span.setStatus({ code: SpanStatusCode.ERROR, message: errorMessage(error) });
    this.#span.end();
    this.#record(error);
  }
}

function injected(from: Context): TraceCarrier | undefined {
  const carrier: Record<string, string> = {};
  propagation.inject(from, carrier);
  return carrier['traceparent'] === undefined ? undefined : carrier;
}

function attributesOf(operation: 'send' | 'process', topic: string): Attributes {
  return {
    ...system,
    'messaging.operation.name': operation,
    'messaging.operation.type': operation,
    'messaging.destination.name': topic,
  };
}

function processAttributes(topic: string, group: string | undefined, event: Event, attempt: number): Attributes {
  return {
    ...attributesOf('process', topic),
    'messaging.message.id': event.id,
    'signals.event.type': event.type,
    'signals.delivery.attempt': attempt,
    ...(group === undefined ? {} : { 'messaging.consumer.group.name': group }),
  };
}

function settleAttributes(operation: string, topic: string, group: string, entries: readonly { decoded: DecodedEntry }[]): Attributes {
  const [only] = entries;
  return {
    ...system,
    'messaging.operation.name': operation,
    'messaging.operation.type': 'settle',
    'messaging.destination.name': topic,
    'messaging.consumer.group.name': group,
    ...(entries.length === 1 && only
      ? { 'messaging.message.id': only.decoded.event.id }
      : { 'messaging.batch.message_count': entries.length }),
  };
}

function linkTo(carrier: TraceCarrier | undefined): Link[] {
  const sender = carrier && trace.getSpanContext(propagation.extract(ROOT_CONTEXT, carrier));
  return sender ? [{ context: sender }] : [];
}

function createdMs(event: Event): number {
  return event.createdAt instanceof Date ? event.createdAt.getTime() : Number.NaN;
}

function errorType(error: unknown): string {
  if (error instanceof Error) return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  return '_OTHER';
}
