/**
 * A real Jaeger, all in one process and in memory: takes spans over OTLP and answers for them. Built from its Go module
 * (jaeger-tools/go.mod pins the version), see go-tools.ts. The module has no built page: Jaeger's page is a project of its own, which
 * is no Go module and no npm package. `JAEGER_UI=<folder>` names a build of it to be served.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { buildProgram, hasProgram, programPath } from './go-tools.ts';
import type { GoModule } from './go-tools.ts';
import { freePort } from './redis-server.ts';
import { until } from './until.ts';

const jaeger: GoModule = {
  path: 'github.com/jaegertracing/jaeger',
  folder: join(import.meta.dirname, 'jaeger-tools'),
  cache: 'jaeger',
};
const program = 'all-in-one';

/** The program; builds it on `JAEGER_TESTS=1`. `undefined` when there is none: then what is missing is said. */
export function jaegerBinary(): string | undefined {
  const path = programPath(jaeger, program);
  if (existsSync(path)) return path;
  const wanted = process.env['JAEGER_TESTS'] === '1';
  const hasGo = hasProgram('go', 'version');
  if (wanted && !hasGo) throw new Error('Go is needed to build Jaeger');
  if (wanted) return buildProgram(jaeger, program);
  console.log(`NOT RUN: what needs a real Jaeger; it was not built yet. JAEGER_TESTS=1 builds it${hasGo ? '' : ', and needs Go'}.`);
  return undefined;
}

export interface JaegerSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Absent on a root. */
  readonly parentSpanId?: string;
  readonly name: string;
  readonly service: string;
  /** Attributes of the process that sent it. */
  readonly process: Readonly<Record<string, unknown>>;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Other spans that it leads to. */
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly startUs: number;
  readonly durationUs: number;
  readonly events: readonly string[];
}

export interface Jaeger {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly otlpUrl: string;
  /** API and page. */
  readonly url: string;
  /** Whether it serves a page. */
  readonly hasPage: boolean;
  /** The spans of a trace so far, by their beginning. */
  trace(traceId: string): Promise<JaegerSpan[]>;
  /** Traces with a span of this name. */
  tracesWith(name: string, service?: string): Promise<JaegerSpan[][]>;
  services(): Promise<string[]>;
  stop(): Promise<void>;
}

/** On free ports of the loopback. */
export async function startJaeger(binary: string): Promise<Jaeger> {
  const [otlp, query] = [await freePort(), await freePort()];
  const other = async () => `127.0.0.1:${await freePort()}`;
  const userInterface = process.env['JAEGER_UI'];
  const child = spawn(
    binary,
    [
      `--collector.otlp.http.host-port=127.0.0.1:${otlp}`, `--collector.otlp.grpc.host-port=${await other()}`,
      `--collector.http-server.host-port=${await other()}`, `--collector.grpc-server.host-port=${await other()}`,
      `--query.http-server.host-port=127.0.0.1:${query}`, `--query.grpc-server.host-port=${await other()}`,
      `--admin.http.host-port=${await other()}`, '--log-level=error',
      ...(userInterface ? [`--query.static-files=${userInterface}`] : []),
    ],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { SPAN_STORAGE_TYPE: 'memory', OTEL_TRACES_SAMPLER: 'always_off' } },
  );
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-2000)));
  const url = `http://127.0.0.1:${query}`;
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  };
  try {
    await until('Jaeger answers', async () => {
      if (child.exitCode !== null) throw new Error(`Jaeger exited with ${child.exitCode}: ${said}`);
      return await fetch(`${url}/api/services`).then(response => response.ok, () => false);
    });
  } catch (error) {
    await stop();
    throw error;
  }
  const traces = async (path: string) => ((await ask(`${url}/api/${path}`)) as ApiTrace[]).map(spansOf);
  return {
    otlpUrl: `http://127.0.0.1:${otlp}`,
    url,
    hasPage: Boolean(userInterface),
    trace: async traceId => (await traces(`traces/${traceId}`))[0] ?? [],
    tracesWith: (name, service = 'signals-runtime') => traces(`traces?service=${service}&operation=${encodeURIComponent(name)}&limit=100&lookback=1h`),
    services: async () => ((await ask(`${url}/api/services`)) as string[] | null) ?? [],
    stop,
  };
}

interface ApiTag {
  readonly key: string;
  readonly value: unknown;
}
interface ApiReference {
  readonly refType: 'CHILD_OF' | 'FOLLOWS_FROM';
  readonly traceID: string;
  readonly spanID: string;
}
interface ApiTrace {
  readonly spans: readonly {
    readonly traceID: string;
    readonly spanID: string;
    readonly operationName: string;
    readonly references: readonly ApiReference[];
    readonly startTime: number;
    readonly duration: number;
    readonly tags: readonly ApiTag[];
    readonly logs: readonly { readonly fields: readonly ApiTag[] }[];
    readonly processID: string;
  }[];
  readonly processes: Readonly<Record<string, { readonly serviceName: string; readonly tags: readonly ApiTag[] }>>;
}

/** A trace that is not there yet is empty, as others are that have no answer. */
async function ask(url: string): Promise<unknown> {
  const response = await fetch(url);
  const body = (await response.json()) as { data: unknown; errors?: { code: number; msg: string }[] | null };
  if (response.status === 404) return [];
  if (!response.ok) throw new Error(`${url}: ${JSON.stringify(body.errors)}`);
  return body.data;
}

function spansOf({ spans, processes }: ApiTrace): JaegerSpan[] {
  return spans.map(span => {
    const process = processes[span.processID];
    // Jaeger keeps the parent as the first reference into its own trace, and links as those after it or into others.
    const parent = span.references.find(({ refType, traceID }) => refType === 'CHILD_OF' && traceID === span.traceID);
    return {
      traceId: span.traceID,
      spanId: span.spanID,
      ...(parent ? { parentSpanId: parent.spanID } : {}),
      name: span.operationName,
      service: process?.serviceName ?? '',
      process: valuesOf(process?.tags ?? []),
      attributes: valuesOf(span.tags),
      links: span.references.filter(reference => reference !== parent).map(({ traceID, spanID }) => ({ traceId: traceID, spanId: spanID })),
      startUs: span.startTime,
      durationUs: span.duration,
      events: span.logs.flatMap(({ fields }) => fields.filter(({ key }) => key === 'event').map(({ value }) => String(value))),
    };
  }).sort((one, other) => one.startUs - other.startUs);
}

function valuesOf(tags: readonly ApiTag[]): Record<string, unknown> {
  return Object.fromEntries(tags.map(({ key, value }) => [key, value]));
}
