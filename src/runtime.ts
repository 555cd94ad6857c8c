/**
 * The composition root: what one instance is made of, in which order it starts, and how it stops.
 *
 * Start: ports first, so that probes are answered while Redis is being waited for; then the store, hints, sweeps. Stop: in
 * reverse, with the leases' work ended before the leases, and the leases before the connections.
 */

import { randomBytes } from 'node:crypto';

import { AgentRegistry } from './agents/registry.ts';
import { createBackend } from './backend.ts';
import type { Backend } from './backend.ts';
import type { AgentDefinition } from './contracts/agent.ts';
import type { MailboxOperations } from './contracts/mailbox-operations.ts';
import type { PubSub } from './contracts/pubsub.ts';
import { systemClock } from './core/clock.ts';
import { errorMessage } from './core/errors.ts';
import type { Logger } from './core/logger.ts';
import { sleep, withLimit } from './core/waits.ts';
import { createApp, createMetricsApp } from './http/app.ts';
import type { HealthReport, HealthView, InstanceReport, OperatorView } from './http/ports.ts';
import { listen } from './http/server.ts';
import type { Listening } from './http/server.ts';
import { startKubernetes } from './kubernetes/kubernetes.ts';
import { LeaseKeeper } from './leases/lease-keeper.ts';
import { Lifecycle, reloadSettings, reportingMailbox, reportingObserver, watchStore } from './lifecycle.ts';
import type { ProcessSettings } from './settings/process-settings.ts';
import type { SettingsStore } from './settings/settings-store.ts';
import { stopLimits } from './settings/stop-limits.ts';
import { settingsReport } from './http/settings-report.ts';
import { Instrumentation } from './telemetry/instrumentation.ts';
import { instrumentLeases } from './telemetry/instrumented-leases.ts';
import { instrumentMailbox, instrumentOperations } from './telemetry/instrumented-mailbox.ts';
import { observeDrain } from './telemetry/lifecycle.ts';
import { TelemetryObserver } from './telemetry/observer.ts';
import { startRuntimeMetrics } from './telemetry/runtime-metrics.ts';
import type { Backlog } from './telemetry/runtime-metrics.ts';
import type { Telemetry } from './telemetry/setup.ts';
import { OwnedThreads, spareLimitMs } from './threads/owned-threads.ts';
import { SignalRouter } from './threads/signal-router.ts';
import { Sweeper } from './threads/sweeper.ts';

export interface RuntimeOptions {
  readonly instanceId: string;
  readonly version: string;
  readonly settings: ProcessSettings;
  readonly leaseSettings: SettingsStore;
  readonly agents: readonly AgentDefinition[];
  /** The user's own backend. */
  readonly pubsub?: PubSub;
  readonly telemetry: Telemetry;
  readonly logger: Logger;
}

export type RuntimeState = 'starting' | 'ready' | 'draining' | 'stopped';

/** How long a start waits for the ConfigMaps; after that it goes on with what the environment says. */
const settingsReadMs = 5000;

export class Runtime {
  readonly #options: RuntimeOptions;
  readonly #backend: Backend;
  readonly #operations: MailboxOperations;
  readonly #keeper: LeaseKeeper;
  readonly #owned: OwnedThreads;
  readonly #sweeper: Sweeper;
  readonly #router: SignalRouter;
  readonly #agents: AgentRegistry;
  readonly #instrumentation: Instrumentation;
  readonly #lifecycle = new Lifecycle();
  readonly #startedAt = new Date().toISOString();
  #state: RuntimeState = 'starting';
  #ports: Listening[] = [];
  #closers: (() => unknown)[] = [];
  #stopping: Promise<void> | undefined;

  constructor(options: RuntimeOptions) {
    const { instanceId, version, settings, leaseSettings, logger } = options;
    this.#options = options;
    this.#agents = new AgentRegistry(options.agents);
    this.#instrumentation = new Instrumentation({ version, ...options.telemetry.tracing });
    const observer = reportingObserver(new TelemetryObserver(this.#instrumentation), this.#lifecycle);
    const clock = systemClock;
    this.#backend = createBackend(settings, instanceId, logger, options.pubsub);
    const mailbox = reportingMailbox(instrumentMailbox(this.#backend.mailbox, this.#instrumentation), this.#lifecycle);
    this.#operations = instrumentOperations(this.#backend.operations, this.#instrumentation);
    const provider = instrumentLeases(this.#backend.leases, this.#instrumentation);
    const current = () => leaseSettings.current().values;
    this.#keeper = new LeaseKeeper({ provider, settings: current, clock, observer, logger });
    this.#owned = new OwnedThreads(
      {
        instanceId, mailbox, keeper: this.#keeper, agents: this.#agents, settings: current, clock, observer, logger,
      },
      settings.maxRuns,
    );
    const intervalMs = () => current().sweepIntervalMs;
    this.#sweeper = new Sweeper({ mailbox, owned: this.#owned, intervalMs, clock, logger });
    this.#router = new SignalRouter({
      mailbox, owned: this.#owned, sweeper: this.#sweeper, operations: this.#operations, agents: this.#agents,
      clock, observer, logger,
    });
  }

  get state(): RuntimeState {
    return this.#state;
  }

  /** The ports that it listens on, in case they were chosen by the system. */
  get ports(): { http: number; metrics: number } {
    return { http: this.#ports[0]?.port ?? 0, metrics: this.#ports[1]?.port ?? 0 };
  }

  /** Resolves when this instance takes threads. Throws when a port can't be had or the store's data is not ours. */
  async start(): Promise<void> {
    const { instanceId, settings, leaseSettings, telemetry, logger } = this.#options;
    const app = createApp({
      service: this.#router,
      agents: this.#agents,
      operations: this.#operations,
      operator: this.#operatorView(),
      health: this.#healthView(),
      tokens: settings.authTokens,
      limits: { bodyBytes: settings.bodyLimitBytes },
      hideIds: this.#instrumentation.ids.hashed,
      logger,
    });
    const metricsApp = createMetricsApp({ collect: () => telemetry.collectMetrics(), logger });
    this.#ports.push(await listen(app, settings.port, settings.host));
    this.#ports.push(await listen(metricsApp, settings.metricsPort, settings.host));
    logger.info('listening', { ...this.ports, host: settings.host, backend: this.#backend.kind });

    const runtimeMetrics = startRuntimeMetrics({
      instrumentation: this.#instrumentation,
      settings: () => leaseSettings.current().values,
      backlog: () => this.#backlog(),
      logger,
    });
    this.#closers.push(() => runtimeMetrics.stop());
    await Promise.all([this.#followKubernetes(), this.#backend.connect()]);
    if (this.#state !== 'starting') return; // stopped while it waited for the store
    const stopListening = await this.#backend.mailbox.listen(instanceId, this.#router);
    this.#closers.push(stopListening);
    this.#closers.push(watchStore(() => this.#backend.reachable, this.#lifecycle, systemClock));
    this.#sweeper.start();
    this.#state = 'ready';
    logger.info('ready', { agents: this.#agents.list().map(agent => agent.id) });
    this.#lifecycle.happened({ type: 'started', backend: this.#backend.kind });
  }

  /** Before anything is run: the settings of the ConfigMaps are to be in effect from the first lease on. */
  async #followKubernetes(): Promise<void> {
    const { instanceId, settings, leaseSettings, logger } = this.#options;
    const kubernetes = await startKubernetes({
      features: settings.kubernetes,
      instanceId,
      feed: reloadSettings(leaseSettings, this.#instrumentation, this.#lifecycle),
      count: (_source, trouble) => this.#instrumentation.instruments.configSourceTroubles.add(1, { reason: trouble }),
      ownedThreads: () => this.#owned.size,
      logger,
    });
    this.#lifecycle.add(kubernetes);
    this.#closers.push(() => kubernetes.close(stopLimits.kubernetesMs));
    await kubernetes.firstRead(settingsReadMs);
  }

  /** Gives up everything in order, within its limits. A second call waits for the first. Never rejects. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { settings, leaseSettings, telemetry, logger } = this.#options;
    const { drainTimeoutMs } = leaseSettings.current().values;
    this.#state = 'draining';
    logger.info('draining', { owned: this.#owned.size, drainTimeoutMs });
    this.#lifecycle.happened({ type: 'drain_started', ownedThreads: this.#owned.size, timeoutMs: drainTimeoutMs });
    // First nothing more is taken; those who still send here for a moment are served, and led elsewhere.
    for (const port of this.#ports) port.letGo();
    const drained = observeDrain(this.#instrumentation, () => this.#owned.drain(drainTimeoutMs, stopLimits.agentsMs - spareLimitMs));
    await this.#step('sweeps', () => withLimit(systemClock, stopLimits.sweepsMs, 'the sweep', this.#sweeper.stop()));
    await sleep(systemClock, settings.drainDelayMs);
    const { stopped, abandoned } = await drained;
    logger.info('drained', { stopped, abandoned });
    this.#lifecycle.happened({ type: 'drain_ended', stopped, abandoned });
    await this.#step('ports', () => Promise.all(this.#ports.map(port => port.close(stopLimits.requestsMs))));
    this.#keeper.close();
    await this.#step('closers', () => {
      const closed = Promise.allSettled(this.#closers.reverse().map(close => close()));
      return withLimit(systemClock, stopLimits.closersMs, 'what was started beside', closed);
    });
    await this.#step('store', () => this.#backend.close(stopLimits.storeMs));
    this.#state = 'stopped';
    logger.info('stopped');
    await telemetry.shutdown(stopLimits.telemetryMs);
  }

  /** One step that fails must not keep the next from being done. */
  async #step(name: string, step: () => Promise<unknown>): Promise<void> {
    try {
      await step();
    } catch (error) {
      this.#options.logger.error('a step of the stop failed', { step: name, error: errorMessage(error) });
    }
  }

  async #backlog(): Promise<Backlog> {
    const { threads, oldestMs } = await this.#operations.unattended();
    return { waiting: threads, ...(oldestMs === undefined ? {} : { oldestAgeMs: oldestMs }) };
  }

  #healthView(): HealthView {
    const ok: HealthReport = { ok: true };
    return {
      live: () => ok,
      started: () => (this.#state === 'starting' ? notOk('starting') : ok),
      ready: () => {
        if (this.#state !== 'ready') return notOk(this.#state);
        return this.#backend.reachable ? ok : notOk('the store is not reachable');
      },
    };
  }

  #operatorView(): OperatorView {
    return {
      settings: () => settingsReport(this.#options.leaseSettings.current()),
      instances: () => Promise.resolve([this.#report()]),
      drain: () => void this.stop(),
    };
  }

  #report(): InstanceReport {
    const { instanceId, version } = this.#options;
    const unready = this.#state === 'stopped' || (this.#state === 'ready' && !this.#backend.reachable);
    return {
      id: instanceId,
      version,
      startedAt: this.#startedAt,
      state: unready ? 'unready' : (this.#state as 'starting' | 'ready' | 'draining'),
      ownedThreads: this.#owned.size,
      self: true,
    };
  }
}

function notOk(reason: string): HealthReport {
  return { ok: false, reasons: [reason] };
}

/** One life of one process: the pod's name and a nonce, so that a restarted container is another instance. */
export function newInstanceId(name: string): string {
  return `${name}.${randomBytes(4).toString('hex')}`;
}
