#!/usr/bin/env node
/**
 * The process: reads the environment, starts the runtime, and ends with it. The only place that knows `process`.
 *
 * - runtime.ts    what an instance is made of, start and stop order
 * - backend.ts    Redis, one of the user's own, or embedded
 * - threads/      what happens to signals and threads
 * - leases/       ownership
 * - http/         routes
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { context } from '@opentelemetry/api';

import { echoAgent } from './agents/echo.ts';
import { httpAgent } from './agents/http-agent.ts';
import { loadAgentModule } from './agents/module.ts';
import { loadBackendModule } from './backend-module.ts';
import type { AgentDefinition } from './contracts/agent.ts';
import { errorMessage, SignalsError } from './core/errors.ts';
import { newInstanceId, Runtime } from './runtime.ts';
import { formatProblem } from './settings/problems.ts';
import { parseProcessSettings } from './settings/process-settings.ts';
import type { ProcessSettings } from './settings/process-settings.ts';
import { SettingsStore } from './settings/settings-store.ts';
import { createLogger } from './telemetry/logger.ts';
import { carrierOf } from './telemetry/observer.ts';
import { startTelemetry } from './telemetry/setup.ts';
import { parseTraceSettings } from './telemetry/trace-settings.ts';

const environment = process.env;

async function run(): Promise<void> {
  const settings = parseProcessSettings(environment);
  const version = packageVersion();
  const instanceId = newInstanceId(settings.instanceName);
  const { hashIds = false } = parseTraceSettings(environment);
  const logger = createLogger({ level: settings.logLevel, base: { instance: instanceId, version }, hashIds });
  const leaseSettings = new SettingsStore({ logger, limits: settings });
  leaseSettings.onChange(({ values }) => logger.setLevel(values.logLevel));
  const { status, problems } = leaseSettings.apply('environment', environment);
  if (status === 'rejected') {
    throw new SignalsError('SIG_SETTINGS_INVALID', problems.map(formatProblem).join('\n'));
  }
  const agents = await loadAgents(settings);
  const pubsub = settings.backendModule === undefined ? undefined : await loadBackendModule(settings.backendModule);
  const telemetry = await startTelemetry({ serviceName: 'signals-runtime', instanceId, version, environment, logger });
  const runtime = new Runtime({
    instanceId, version, settings, leaseSettings, agents, telemetry, logger, ...(pubsub && { pubsub }),
  });

  const stop = (signal: NodeJS.Signals) => {
    if (runtime.state === 'draining') {
      logger.warn('told to stop again while draining: exiting at once', { signal });
      process.exit(1);
    }
    void runtime.stop().then(() => process.exit(0));
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  // A promise that an agent forgot must not end the threads of all others. It is said, and counted in the log.
  process.on('unhandledRejection', reason => logger.error('a promise was rejected and nobody waited', { error: errorMessage(reason) }));
  await runtime.start();
}

async function loadAgents(settings: ProcessSettings): Promise<readonly AgentDefinition[]> {
  const own = settings.agentModule === undefined ? [] : await loadAgentModule(settings.agentModule);
  const remote = settings.remoteAgents.map(({ id, url }) => httpAgent({ id, url, traceHeaders: () => carrierOf(context.active()) }));
  const all = [...own, ...remote];
  return all.length > 0 ? all : [echoAgent];
}

function packageVersion(): string {
  const text = readFileSync(join(import.meta.dirname, '..', 'package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

run().catch((error: unknown) => {
  const code = error instanceof SignalsError ? error.code : 'SIG_INTERNAL';
  process.stderr.write(`signals-runtime cannot start (${code}): ${errorMessage(error)}\n`);
  process.exit(1);
});
