/**
 * Reads OTLP protobuf into the shape of OTLP JSON, independently of the library that wrote it. Only the fields that tests
 * look at; unknown ones are skipped. Numbers: https://github.com/open-telemetry/opentelemetry-proto
 */

type Scalar = 'string' | 'bytes' | 'bool' | 'varint' | 'fixed64' | 'double';
type Field = readonly [name: string, type: Scalar | keyof typeof schema, repeated?: 'repeated'];

const schema = {
  ExportTraceServiceRequest: { 1: ['resourceSpans', 'ResourceSpans', 'repeated'] },
  ResourceSpans: { 1: ['resource', 'Resource'], 2: ['scopeSpans', 'ScopeSpans', 'repeated'] },
  ScopeSpans: { 1: ['scope', 'Scope'], 2: ['spans', 'Span', 'repeated'] },
  ExportMetricsServiceRequest: { 1: ['resourceMetrics', 'ResourceMetrics', 'repeated'] },
  ResourceMetrics: { 1: ['resource', 'Resource'], 2: ['scopeMetrics', 'ScopeMetrics', 'repeated'] },
  ScopeMetrics: { 1: ['scope', 'Scope'], 2: ['metrics', 'Metric', 'repeated'] },
  Resource: { 1: ['attributes', 'KeyValue', 'repeated'] },
  Scope: { 1: ['name', 'string'], 2: ['version', 'string'] },
  KeyValue: { 1: ['key', 'string'], 2: ['value', 'AnyValue'] },
  AnyValue: {
    1: ['stringValue', 'string'],
    2: ['boolValue', 'bool'],
    3: ['intValue', 'varint'],
    4: ['doubleValue', 'double'],
    5: ['arrayValue', 'ArrayValue'],
  },
  ArrayValue: { 1: ['values', 'AnyValue', 'repeated'] },
  Span: {
    1: ['traceId', 'bytes'],
    2: ['spanId', 'bytes'],
    4: ['parentSpanId', 'bytes'],
    5: ['name', 'string'],
    6: ['kind', 'varint'],
    7: ['startTimeUnixNano', 'fixed64'],
    8: ['endTimeUnixNano', 'fixed64'],
    9: ['attributes', 'KeyValue', 'repeated'],
    11: ['events', 'SpanEvent', 'repeated'],
    13: ['links', 'Link', 'repeated'],
    15: ['status', 'Status'],
  },
  SpanEvent: { 2: ['name', 'string'], 3: ['attributes', 'KeyValue', 'repeated'] },
  Link: { 1: ['traceId', 'bytes'], 2: ['spanId', 'bytes'], 4: ['attributes', 'KeyValue', 'repeated'] },
  Status: { 2: ['message', 'string'], 3: ['code', 'varint'] },
  Metric: {
    1: ['name', 'string'],
    2: ['description', 'string'],
    3: ['unit', 'string'],
    5: ['gauge', 'NumberData'],
    7: ['sum', 'NumberData'],
    9: ['histogram', 'HistogramData'],
  },
  NumberData: {
    1: ['dataPoints', 'NumberPoint', 'repeated'],
    2: ['aggregationTemporality', 'varint'],
    3: ['isMonotonic', 'bool'],
  },
  HistogramData: { 1: ['dataPoints', 'HistogramPoint', 'repeated'], 2: ['aggregationTemporality', 'varint'] },
  NumberPoint: { 4: ['asDouble', 'double'], 6: ['asInt', 'fixed64'], 7: ['attributes', 'KeyValue', 'repeated'] },
  HistogramPoint: {
    4: ['count', 'fixed64'],
    5: ['sum', 'double'],
    6: ['bucketCounts', 'fixed64', 'repeated'],
    7: ['explicitBounds', 'double', 'repeated'],
    9: ['attributes', 'KeyValue', 'repeated'],
  },
} as const;

export type OtlpMessage = keyof typeof schema;
export type Decoded = Record<string, unknown>;

const wire = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/** Throws on bytes that are no such message. */
export function decodeOtlp(message: OtlpMessage, bytes: Buffer): Decoded {
  const fields: Readonly<Record<number, Field>> = schema[message];
  const result: Decoded = {};
  for (let at = 0; at < bytes.length; ) {
    const tag = readVarint(bytes, at);
    const wireType = Number(tag.value & 7n);
    const value = readValue(bytes, tag.end, wireType);
    at = value.end;
    const field = fields[Number(tag.value >> 3n)];
    if (field) store(result, field, value.raw);
  }
  return result;
}

function readValue(bytes: Buffer, at: number, wireType: number): { raw: bigint | Buffer; end: number } {
  if (wireType === wire.varint) {
    const { value, end } = readVarint(bytes, at);
    return { raw: value, end };
  }
  if (wireType === wire.fixed64) return { raw: slice(bytes, at, 8), end: at + 8 };
  if (wireType === wire.fixed32) return { raw: slice(bytes, at, 4), end: at + 4 };
  if (wireType !== wire.bytes) throw new Error(`wire type ${wireType} at byte ${at} is not protobuf`);
  const length = readVarint(bytes, at);
  return { raw: slice(bytes, length.end, Number(length.value)), end: length.end + Number(length.value) };
}

function readVarint(bytes: Buffer, at: number): { value: bigint; end: number } {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = bytes[at++];
    if (byte === undefined) break;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return { value, end: at };
  }
  throw new Error(`a varint at byte ${at} does not end`);
}

function slice(bytes: Buffer, at: number, length: number): Buffer {
  if (at + length > bytes.length) throw new Error(`the message ends at byte ${bytes.length}, in the middle of a field`);
  return bytes.subarray(at, at + length);
}

function store(result: Decoded, [name, type, repeated]: Field, raw: bigint | Buffer): void {
  if (!repeated) {
    result[name] = convert(type, raw);
    return;
  }
  const list = (result[name] ??= []) as unknown[];
  const packed = (type === 'fixed64' || type === 'double') && Buffer.isBuffer(raw) && raw.length !== 8;
  if (!packed) list.push(convert(type, raw));
  else for (let at = 0; at < raw.length; at += 8) list.push(convert(type, raw.subarray(at, at + 8)));
}

function convert(type: Field[1], raw: bigint | Buffer): unknown {
  if (!Buffer.isBuffer(raw)) return type === 'bool' ? raw !== 0n : Number(BigInt.asIntN(64, raw));
  if (type === 'string') return raw.toString('utf8');
  if (type === 'bytes') return raw.toString('hex');
  if (type === 'fixed64') return Number(raw.readBigInt64LE());
  if (type === 'double') return raw.readDoubleLE();
  if (type === 'bool' || type === 'varint') throw new Error(`a field of type ${type} has a length`);
  return decodeOtlp(type, raw);
}
