/** What the pictures are taken of: three pods on a Redis, a Prometheus and a Jaeger that look on, traffic, and a bad few minutes. */

import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { defaultTextMapSetter, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';

import { Fleet } from '../../test/support/fleet.ts';
import { startJaeger } from '../../test/support/jaeger.ts';
import type { Jaeger } from '../../test/support/jaeger.ts';
import { startPrometheus } from '../../test/support/prometheus-server.ts';
import type { PrometheusServer } from '../../test/support/prometheus-server.ts';
import { freePort } from '../../test/support/redis-server.ts';
import type { RuntimeProcess } from '../../test/support/runtime-process.ts';
import { until } from '../../test/support/until.ts';
import type { Mark } from './chart.ts';

const names = ['a', 'b', 'c'] as const;
type Name = (typeof names)[number];
/** Where each is scraped, over all of its lives. */
type Ports = Readonly<Record<Name, number>>;

export class System {
  readonly jaeger: Jaeger;
  readonly prometheus: PrometheusServer;
  readonly startedAt = Date.now() / 1000;
  readonly marks: Mark[] = [];
  readonly #fleet: Fleet;
  readonly #ports: Ports;
  readonly #pods = new Map<Name, RuntimeProcess>();
  #stopTraffic = () => {};

  private constructor(fleet: Fleet, jaeger: Jaeger, prometheus: PrometheusServer, ports: Ports) {
    this.#fleet = fleet;
    this.jaeger = jaeger;
    this.prometheus = prometheus;
    this.#ports = ports;
  }

  static async start(jaegerProgram: string): Promise<System> {
    const ports = { a: await freePort(), b: await freePort(), c: await freePort() };
    const targets = names.map(pod => ({ target: `127.0.0.1:${ports[pod]}`, labels: { cluster: 'demo', namespace: 'signals', pod } }));
    const rules = join(import.meta.dirname, '../alerts/signals-runtime.rules.yaml');
    const system = new System(await Fleet.start(), await startJaeger(jaegerProgram), await startPrometheus(targets, [rules]), ports);
    try {
      await Promise.all(names.map(name => system.#startPod(name)));
    } catch (error) {
      await system.stop();
      throw error;
    }
    return system;
  }

  async stop(): Promise<void> {
    this.#stopTraffic();
    await this.#fleet.stop();
    await this.jaeger.stop();
    await this.prometheus.stop();
  }

  /** Everyday signals to all pods; what is sent to one that is away is lost, as it would be with a client that does not try again. */
  startTraffic(perSecond: number): void {
    let sent = 0;
    const timer = setInterval(() => {
      const [name, at] = [names[sent++ % names.length] ?? 'a', sent];
      const signal = { type: 'user', contents: `signal ${at}` };
      const behavior = at % 5 === 0 ? { ifActive: { behavior: 'persist' } } : {};
      this.#send(name, 'worker/signals', { resourceId: 'demo', threadId: `thread-${at % 24}`, signal, ...behavior }).catch(() => {});
    }, 1000 / perSecond);
    this.#stopTraffic = () => clearInterval(timer);
  }

  /** One conversation that wakes its thread on B, goes on over its death, and is written to from all pods. Answers its trace's id. */
  async conversation(): Promise<string> {
    const client = new Client(this.jaeger.otlpUrl);
    const thread = { resourceId: 'ada', threadId: `engine-${randomUUID().slice(0, 8)}` };
    const say = (pod: Name, text: string) => client.within(headers => this.#send(pod, 'assistant/queue-message', { ...thread, message: text }, headers));
    const ownedBy = (what: string, test: (owner: string | null) => boolean) =>
      until(what, async () => test(await this.#fleet.owner(thread)), 60_000);
    await say('b', '1500 the first message');
    const first = await this.#fleet.owner(thread);
    await sleep(500);
    await say('c', '2500 the second, which waits for its turn');
    await ownedBy('the second run is on', owner => owner !== first);
    await sleep(700);
    await this.killAndRestart('b');
    await say('a', '800 the third');
    await ownedBy('it ends', owner => owner === null);
    return await client.end();
  }

  async killAndRestart(name: Name): Promise<void> {
    const pod = this.#pod(name);
    pod.kill('SIGKILL');
    this.#mark(`${name} killed`);
    await pod.exited();
    void sleep(8000).then(() => this.#startPod(name)).then(() => this.#mark(`${name} is back`));
  }

  async deploy(name: Name): Promise<void> {
    const pod = this.#pod(name);
    pod.kill('SIGTERM');
    this.#mark(`${name} told to stop`);
    await pod.exited();
    await this.#startPod(name);
    this.#mark(`${name} is back`);
  }

  #mark(text: string): void {
    this.marks.push({ at: Date.now() / 1000, text });
  }

  async #startPod(name: Name): Promise<void> {
    const pod = await this.#fleet.pod(name, {
      METRICS_PORT: String(this.#ports[name]),
      AGENT_MODULE: join(import.meta.dirname, 'agents.ts'),
      OTEL_EXPORTER_OTLP_ENDPOINT: this.jaeger.otlpUrl,
      OTEL_METRICS_EXPORTER: 'none',
      // What a pod has not sent is lost with it.
      OTEL_BSP_SCHEDULE_DELAY: '200',
      TRACE_RUNS: 'parent',
      DRAIN_DELAY_MS: '3000',
      MASTRA_AGENT_THREAD_LEASE_TTL_MS: '5000',
      MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS: '1000',
      MASTRA_AGENT_THREAD_LEASE_SWEEP_INTERVAL_MS: '500',
      MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: '5000',
    });
    this.#pods.set(name, pod);
  }

  async #send(name: Name, path: string, body: object, headers: Record<string, string> = {}): Promise<void> {
    const response = await fetch(`${this.#pod(name).url}/api/agents/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    const answer = await response.text();
    if (!response.ok) throw new Error(`${name} answered ${response.status}: ${answer}`);
  }

  #pod(name: Name): RuntimeProcess {
    const pod = this.#pods.get(name);
    if (!pod) throw new Error(`no pod ${name}`);
    return pod;
  }
}

/** Who writes to the thread: a service of its own, whose trace it all belongs to. */
class Client {
  readonly #provider: TracerProvider;
  readonly #span;
  readonly #propagator = new W3CTraceContextPropagator();

  constructor(otlpUrl: string) {
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({ 'service.name': 'client' }),
      spanProcessors: [new SimpleSpanProcessor({ exporter: new OTLPTraceExporter({ url: `${otlpUrl}/v1/traces` }) })],
    });
    this.#span = this.#provider.getTracer('client').startSpan('conversation', { kind: SpanKind.CLIENT }, ROOT_CONTEXT);
  }

  async within(work: (headers: Record<string, string>) => Promise<void>): Promise<void> {
    const headers: Record<string, string> = {};
    this.#propagator.inject(trace.setSpan(ROOT_CONTEXT, this.#span), headers, defaultTextMapSetter);
    await work(headers);
  }

  async end(): Promise<string> {
    this.#span.end();
    await this.#provider.shutdown();
    return this.#span.spanContext().traceId;
  }
}
