/**
 * A little traffic on two pods, and what goes wrong in a bad week: a pod is killed, a lease is taken away, the store is cut
 * off, the pods are full, settings are wrong, a pod is deployed anew. A real Prometheus with our rules looks on.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { threadLeaseKey } from '../../../src/contracts/thread.ts';
import { Fleet } from '../../support/fleet.ts';
import { startPrometheus } from '../../support/prometheus-server.ts';
import type { PrometheusServer } from '../../support/prometheus-server.ts';
import { freePort } from '../../support/redis-server.ts';
import type { RuntimeProcess } from '../../support/runtime-process.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import type { TcpProxy } from '../../support/tcp-proxy.ts';
import { until } from '../../support/until.ts';

const rules = join(import.meta.dirname, '../../../deploy/alerts/signals-runtime.rules.yaml');
const agents = join(import.meta.dirname, 'agents.ts');

/** For a machine that does much else. */
const limitMs = 90_000;

export class Story {
  readonly prometheus: PrometheusServer;
  /** Seconds since the epoch. */
  readonly startedAt = Date.now() / 1000;
  readonly #fleet: Fleet;
  readonly #proxy: TcpProxy;
  readonly #settings: string;
  readonly #metricsPorts: Readonly<Record<string, number>>;
  readonly #pods = new Map<string, RuntimeProcess>();
  #traffic = true;
  #sent = 0;

  private constructor(fleet: Fleet, proxy: TcpProxy, prometheus: PrometheusServer, metricsPorts: Record<string, number>) {
    this.#fleet = fleet;
    this.#proxy = proxy;
    this.prometheus = prometheus;
    this.#metricsPorts = metricsPorts;
    this.#settings = mkdtempSync(join(tmpdir(), 'signals-settings-'));
  }

  static async begin(): Promise<Story> {
    const fleet = await Fleet.start();
    const proxy = await startTcpProxy(Number(new URL(fleet.redis.url).port));
    const ports = { a: await freePort(), b: await freePort() };
    const targets = Object.entries(ports).map(([pod, port]) => ({
      target: `127.0.0.1:${port}`,
      labels: { cluster: 'test', namespace: 'signals', pod },
    }));
    return new Story(fleet, proxy, await startPrometheus(targets, [rules]), ports);
  }

  /** All of it, in an order in which one fault does not hide the next. */
  async play(): Promise<void> {
    await Promise.all([this.#start('a'), this.#start('b')]);
    const traffic = this.#keepSending();
    await this.#isSeen('both pods', 'count(up == 1) == 2');
    await this.#settingsChange();
    await this.#longRuns();
    await this.#leaseIsStolen();
    await this.#podsAreFull();
    await this.#storeIsCutOff();
    await this.#podIsKilled();
    await this.#podIsDeployed();
    this.#traffic = false;
    await traffic;
  }

  async end(): Promise<void> {
    this.#traffic = false;
    await this.#fleet.stop();
    await this.#proxy.stop();
    await this.prometheus.stop();
    rmSync(this.#settings, { recursive: true, force: true });
  }

  async #start(name: string): Promise<void> {
    const pod = await this.#fleet.pod(name, {
      REDIS_URL: this.#proxy.url,
      METRICS_PORT: String(this.#metricsPorts[name]),
      AGENT_MODULE: agents,
      SETTINGS_DIR: this.#settings,
      MAX_RUNS: '8',
      // Longer than a scrape: what a drain counts is to be seen before the process ends.
      DRAIN_DELAY_MS: '5000',
      MASTRA_AGENT_THREAD_LEASE_TTL_MS: '4000',
      MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS: '500',
      MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: '1000',
    });
    this.#pods.set(name, pod);
  }

  /** Everyday signals, to whichever pod is there; every fourth run fails. */
  async #keepSending(): Promise<void> {
    while (this.#traffic) {
      const at = this.#sent++;
      for (const pod of this.#pods.values()) await this.#send(pod, `daily-${at % 4}`, at % 4 === 0 ? 'throw' : 'sleep 100');
      await new Promise(resolve => setTimeout(resolve, 200));
    }
  }

  /** Answers the status; 0 for a pod that is not there, which is part of the story. */
  async #send(pod: RuntimeProcess, threadId: string, message: string, agent = 'scripted'): Promise<number> {
    try {
      const response = await fetch(`${pod.url}/api/agents/${agent}/send-message`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ resourceId: 'user', threadId, message }),
        signal: AbortSignal.timeout(10_000),
      });
      await response.text();
      return response.status;
    } catch {
      return 0;
    }
  }

  async #settingsChange(): Promise<void> {
    const file = join(this.#settings, 'MASTRA_AGENT_THREAD_LEASE_TTL_MS');
    writeFileSync(file, '4500');
    await this.#isSeen('new settings', 'min(signals_lease_ttl_seconds) == 4.5');
    writeFileSync(file, 'forever');
    await this.#isSeen('refused settings', 'sum(signals_config_reloads_total{outcome="rejected"}) > 0');
    // Stays there: each look at the directory finds it again.
    writeFileSync(join(this.#settings, 'not-a-setting'), 'x'.repeat(2 * 1024 * 1024));
    await this.#isSeen('what is no setting', 'sum(signals_config_source_troubles_total{reason="unparsable"}) > 0');
  }

  async #longRuns(): Promise<void> {
    await this.#fleet.client.set('mastra:topic:broken', 'no stream');
    for (const [name, pod] of this.#pods) {
      await this.#send(pod, `long-${name}`, 'sleep 600000');
      await this.#send(pod, `events-${name}`, 'go', 'events');
    }
    // More than a hundredth of all signals so far.
    for (let at = 0; at < 10; at++) await this.#send(this.#pod('a'), 'large', 'x'.repeat(300 * 1024));
    await this.#isSeen('events', 'sum(messaging_process_duration_seconds_count{error_type!=""}) > 0 and sum(signals_stream_dead_letters_total) > 0');
  }

  async #leaseIsStolen(): Promise<void> {
    let tries = 0;
    await until('a stale write was refused', async () => {
      const thread = { resourceId: 'user', threadId: `stolen-${tries++}` };
      await this.#send(this.#pod('a'), thread.threadId, 'go', 'chatty');
      await until('it has an owner', async () => (await this.#fleet.owner(thread)) !== null, limitMs);
      await this.#fleet.client.set(`mastra:topic:lease:${threadLeaseKey(thread)}`, 'thief.1/run', 'PX', 500, 'XX');
      return (await this.prometheus.query('sum(signals_lease_fence_rejections_total) > 0')).length > 0;
    }, limitMs, 1500);
    // And once so that only a renewal finds out: this one writes nothing.
    const quiet = { resourceId: 'user', threadId: 'stolen-quietly' };
    await this.#send(this.#pod('a'), quiet.threadId, 'sleep 600000');
    await until('it has an owner', async () => (await this.#fleet.owner(quiet)) !== null, limitMs);
    await this.#fleet.client.set(`mastra:topic:lease:${threadLeaseKey(quiet)}`, 'thief.1/run', 'PX', 60_000, 'XX');
    await this.#isSeen('a lost lease', 'sum(signals_lease_hold_duration_seconds_count{end_reason="lost"}) > 0');
  }

  async #podsAreFull(): Promise<void> {
    for (let at = 0; at < 24; at++) await this.#send(this.#pod('b'), `crowd-${at}`, 'sleep 6000');
    await this.#isSeen('threads that nobody runs', 'max(signals_inbox_oldest_age_seconds) > 0');
    await this.#isSeen('the end of it', 'max(signals_inbox_waiting) == 0');
  }

  async #storeIsCutOff(): Promise<void> {
    this.#proxy.down();
    await this.#isSeen('failing renewals', 'sum(signals_lease_operation_duration_seconds_count{operation="renew", outcome=~"error|timeout"}) > 0');
    await this.#isSeen('signals that can\'t be routed', 'sum(signals_route_decisions_total{decision="error"}) > 0');
    this.#proxy.restore();
    for (const pod of this.#pods.values()) {
      await until(`${pod.name} is ready again`, async () => await fetch(`${pod.url}/readyz`).then(answer => answer.ok, () => false), limitMs);
    }
  }

  async #podIsKilled(): Promise<void> {
    const thread = { resourceId: 'user', threadId: 'long-killed' };
    const b = this.#pod('b');
    await this.#send(b, thread.threadId, 'sleep 600000');
    await until('it runs on b', async () => (await this.#fleet.owner(thread))?.startsWith('b.'), limitMs);
    b.kill('SIGKILL');
    await b.exited();
    await this.#isSeen('a takeover', 'sum(signals_lease_takeovers_total) > 0 and sum(signals_stream_redeliveries_total) > 0');
    await this.#start('b');
    await this.#isSeen('the pod again', 'count(up == 1) == 2');
  }

  async #podIsDeployed(): Promise<void> {
    const a = this.#pod('a');
    await this.#send(a, 'long-deployed', 'sleep 600000');
    a.kill('SIGTERM');
    await this.#isSeen('a drain', 'sum(signals_drain_duration_seconds_count) > 0');
    await a.exited();
    await this.#start('a');
    await this.#isSeen('the new pod', 'count(up == 1) == 2');
  }

  #pod(name: string): RuntimeProcess {
    const pod = this.#pods.get(name);
    if (!pod) throw new Error(`no pod ${name}`);
    return pod;
  }

  async #isSeen(what: string, expression: string): Promise<void> {
    await until(`${what} can be seen (${expression})`, async () => (await this.prometheus.query(expression)).length > 0, limitMs, 300);
  }
}
