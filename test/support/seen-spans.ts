/** Spans as the test's own receiver and as a real Jaeger give them, read alike. */

import type { Jaeger, JaegerSpan } from './jaeger.ts';
import type { OtlpReceiver, ReceivedSpan } from './otlp-receiver.ts';

export interface SeenSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Absent on a root. */
  readonly parentSpanId?: string;
  readonly name: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Span ids of those that it is linked to. */
  readonly linkedTo: readonly string[];
  readonly events: readonly string[];
  readonly service: string;
  /** `service.instance.id`. */
  readonly instance: string;
}

/** Where pods send their spans, and where they can be read again. */
export interface SpanStore {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly otlpUrl: string;
  /** The spans of a trace so far. */
  trace(traceId: string): Promise<readonly SeenSpan[]>;
  /** The spans of this name so far. */
  named(name: string): Promise<readonly SeenSpan[]>;
  stop(): Promise<void>;
}

export function receivedSpans(receiver: OtlpReceiver): SpanStore {
  const all = () => receiver.spans().map(fromReceiver);
  return {
    otlpUrl: receiver.url,
    trace: traceId => Promise.resolve(all().filter(span => span.traceId === traceId)),
    named: name => Promise.resolve(all().filter(span => span.name === name)),
    stop: () => receiver.stop(),
  };
}

export function jaegerSpans(jaeger: Jaeger): SpanStore {
  return {
    otlpUrl: jaeger.otlpUrl,
    trace: async traceId => (await jaeger.trace(traceId)).map(fromJaeger),
    named: async name => (await jaeger.tracesWith(name)).flat().filter(span => span.name === name).map(fromJaeger),
    stop: () => jaeger.stop(),
  };
}

function fromReceiver({ traceId, spanId, parentSpanId, name, attributes, links, events, resource }: ReceivedSpan): SeenSpan {
  return {
    traceId, spanId, name, attributes,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    linkedTo: links.map(link => link.spanId),
    events: events.map(event => event.name),
    service: String(resource['service.name']),
    instance: String(resource['service.instance.id']),
  };
}

function fromJaeger({ traceId, spanId, parentSpanId, name, attributes, links, events, service, process }: JaegerSpan): SeenSpan {
  return {
    traceId, spanId, name, attributes, events, service,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    linkedTo: links.map(link => link.spanId),
    instance: String(process['service.instance.id']),
  };
}
