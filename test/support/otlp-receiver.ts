/** A real OTLP/HTTP endpoint for tests: takes protobuf and JSON, plain and gzipped, and keeps what it was sent. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { gunzipSync } from 'node:zlib';

import { decodeOtlp } from './otlp-protobuf.ts';
import type { OtlpMessage } from './otlp-protobuf.ts';

export type Attributes = Record<string, unknown>;

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Absent on a root. */
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: 'UNSPECIFIED' | 'INTERNAL' | 'SERVER' | 'CLIENT' | 'PRODUCER' | 'CONSUMER';
  readonly attributes: Attributes;
  readonly links: readonly { traceId: string; spanId: string; attributes: Attributes }[];
  readonly events: readonly { name: string; attributes: Attributes }[];
  readonly status: { readonly code: 'UNSET' | 'OK' | 'ERROR'; readonly message?: string };
  /** Attributes of the resource: `service.name`, `service.instance.id`, ... */
  readonly resource: Attributes;
  readonly scope: string;
  readonly startNs: number;
  readonly endNs: number;
}

export interface ReceivedPoint {
  readonly attributes: Attributes;
  /** Sums and gauges. */
  readonly value?: number;
  /** Histograms. */
  readonly count?: number;
  readonly sum?: number;
  readonly bounds?: readonly number[];
  readonly bucketCounts?: readonly number[];
}

export interface ReceivedMetric {
  readonly name: string;
  readonly description: string;
  readonly unit: string;
  readonly type: 'sum' | 'gauge' | 'histogram';
  readonly monotonic: boolean;
  readonly points: readonly ReceivedPoint[];
  readonly resource: Attributes;
}

export interface OtlpReceiver {
  /** Base URL, for `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly url: string;
  /** All spans so far, in the order of their arrival. */
  spans(): ReceivedSpan[];
  /** The latest state of each metric of each `service.instance.id`. */
  metrics(): ReceivedMetric[];
  /** Requests so far, refused ones included. */
  requests(): number;
  /** What is answered from now on: `ok`, an error status, or nothing at all (`hang`). */
  answer(how: 'ok' | 'hang' | number): void;
  stop(): Promise<void>;
}

const kinds = ['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'] as const;
const statusCodes = ['UNSET', 'OK', 'ERROR'] as const;

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const metrics = new Map<string, ReceivedMetric>();
  let requests = 0;
  let behaviour: 'ok' | 'hang' | number = 'ok';

  /** Keeps what a request brought; answers the status. */
  const keep = (request: IncomingMessage, body: Buffer): number => {
    if (request.url === '/v1/traces') {
      spans.push(...spansOf(parse(request, 'ExportTraceServiceRequest', body)));
      return 200;
    }
    if (request.url !== '/v1/metrics') return 404;
    for (const metric of metricsOf(parse(request, 'ExportMetricsServiceRequest', body))) {
      metrics.set(`${String(metric.resource['service.instance.id'])} ${metric.name}`, metric);
    }
    return 200;
  };
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await bodyOf(request);
    requests++;
    if (behaviour === 'hang') return;
    const type = request.headers['content-type'];
    const status = behaviour === 'ok' ? keep(request, body) : behaviour;
    response.writeHead(status, { 'content-type': type }).end(type === 'application/json' ? '{}' : '');
  };
  const server = createServer((request, response) => {
    receive(request, response).catch((error: unknown) => response.writeHead(400).end(String(error)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');

  return {
    url: `http://127.0.0.1:${address.port}`,
    spans: () => [...spans],
    metrics: () => [...metrics.values()],
    requests: () => requests,
    answer: how => void (behaviour = how),
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const body = Buffer.concat(parts);
  return request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
}

function parse(request: IncomingMessage, message: OtlpMessage, body: Buffer): Node {
  const type = request.headers['content-type'] ?? '';
  return type.startsWith('application/json') ? (JSON.parse(body.toString('utf8')) as Node) : decodeOtlp(message, body);
}

/** A decoded message: that of OTLP JSON, in which 64-bit numbers may be strings. */
type Node = Record<string, unknown>;

const nodes = (value: unknown): Node[] => (value ?? []) as Node[];
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const numbers = (value: unknown): number[] => ((value ?? []) as unknown[]).map(Number);

function attributesOf(node: unknown): Attributes {
  const pairs = nodes((node as Node | undefined)?.['attributes']);
  return Object.fromEntries(pairs.map(pair => [text(pair['key']), valueOf(pair['value'] as Node | undefined)]));
}

function valueOf(value: Node | undefined): unknown {
  if (!value) return undefined;
  if ('intValue' in value) return Number(value['intValue']);
  if ('arrayValue' in value) return nodes((value['arrayValue'] as Node)['values']).map(valueOf);
  return value['stringValue'] ?? value['boolValue'] ?? value['doubleValue'];
}

function spansOf(request: Node): ReceivedSpan[] {
  return nodes(request['resourceSpans']).flatMap(group => {
    const resource = attributesOf(group['resource']);
    return nodes(group['scopeSpans']).flatMap(scoped =>
      nodes(scoped['spans']).map(span => spanOf(span, resource, text((scoped['scope'] as Node | undefined)?.['name']))),
    );
  });
}

function spanOf(span: Node, resource: Attributes, scope: string): ReceivedSpan {
  const parent = text(span['parentSpanId']);
  const status = (span['status'] ?? {}) as Node;
  const message = text(status['message']);
  return {
    traceId: text(span['traceId']),
    spanId: text(span['spanId']),
    ...(parent ? { parentSpanId: parent } : {}),
    name: text(span['name']),
    kind: kinds[Number(span['kind'] ?? 0)] ?? 'UNSPECIFIED',
    attributes: attributesOf(span),
    links: nodes(span['links']).map(link => ({
      traceId: text(link['traceId']),
      spanId: text(link['spanId']),
      attributes: attributesOf(link),
    })),
    events: nodes(span['events']).map(event => ({ name: text(event['name']), attributes: attributesOf(event) })),
    status: { code: statusCodes[Number(status['code'] ?? 0)] ?? 'UNSET', ...(message ? { message } : {}) },
    resource,
    scope,
    startNs: Number(span['startTimeUnixNano'] ?? 0),
    endNs: Number(span['endTimeUnixNano'] ?? 0),
  };
}

function metricsOf(request: Node): ReceivedMetric[] {
  return nodes(request['resourceMetrics']).flatMap(group => {
    const resource = attributesOf(group['resource']);
    return nodes(group['scopeMetrics']).flatMap(scoped =>
      nodes(scoped['metrics']).map(metric => metricOf(metric, resource)),
    );
  });
}

function metricOf(metric: Node, resource: Attributes): ReceivedMetric {
  const type = (['sum', 'gauge', 'histogram'] as const).find(name => metric[name] !== undefined);
  if (!type) throw new Error(`a metric of an unknown type: ${JSON.stringify(metric)}`);
  const data = metric[type] as Node;
  return {
    name: text(metric['name']),
    description: text(metric['description']),
    unit: text(metric['unit']),
    type,
    monotonic: data['isMonotonic'] === true,
    points: nodes(data['dataPoints']).map(point => pointOf(point, type)),
    resource,
  };
}

function pointOf(point: Node, type: ReceivedMetric['type']): ReceivedPoint {
  const attributes = attributesOf(point);
  if (type !== 'histogram') return { attributes, value: Number(point['asDouble'] ?? point['asInt'] ?? 0) };
  return {
    attributes,
    count: Number(point['count'] ?? 0),
    sum: Number(point['sum'] ?? 0),
    bounds: numbers(point['explicitBounds']),
    bucketCounts: numbers(point['bucketCounts']),
  };
}
