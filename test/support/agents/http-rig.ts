/** The real HTTP app on a real port, in front of the stand-in service. */

import { AgentRegistry } from '../../../src/agents/registry.ts';
import { echoAgent } from '../../../src/agents/echo.ts';
import type { AppOptions } from '../../../src/http/app.ts';
import { createApp } from '../../../src/http/app.ts';
import type { HealthView, OperatorView } from '../../../src/http/ports.ts';
import { listen } from '../../../src/http/server.ts';
import type { LogFields, Logger } from '../../../src/core/logger.ts';
import { EventEmitterPubSub } from '../../../src/memory/event-emitter-pubsub.ts';
import { MemoryLeaseProvider } from '../../../src/memory/memory-leases.ts';
import { PubSubMailbox } from '../../../src/threads/pubsub-mailbox.ts';
import { StandInThreadService } from './stand-in-thread-service.ts';

export class MemoryLogger implements Logger {
  readonly lines: { level: string; message: string; fields: LogFields }[] = [];
  debug = (message: string, fields: LogFields = {}) => void this.lines.push({ level: 'debug', message, fields });
  info = (message: string, fields: LogFields = {}) => void this.lines.push({ level: 'info', message, fields });
  warn = (message: string, fields: LogFields = {}) => void this.lines.push({ level: 'warn', message, fields });
  error = (message: string, fields: LogFields = {}) => void this.lines.push({ level: 'error', message, fields });
}

/** The real ones of an embedded mailbox that holds nothing. */
function embeddedOperations() {
  const limits = {
    maxEntries: 10, maxBytes: 10_000, signalMaxBytes: 1000, dedupeWindowMs: 1000, outputMaxChunks: 10, outputRetentionMs: 1000,
    maxDeliveryAttempts: 1,
  };
  const mailbox = new PubSubMailbox({ pubsub: new EventEmitterPubSub(), leases: new MemoryLeaseProvider(), instanceId: 'a', limits });
  return mailbox.operations;
}

export async function startHttp(options: Partial<AppOptions> = {}) {
  const service = new StandInThreadService();
  const logger = new MemoryLogger();
  const state = { drains: 0, live: true, ready: true, started: true };
  const operator: OperatorView = {
    settings: () => ({
      effective: { MASTRA_AGENT_THREAD_LEASE_TTL_MS: { value: 15_000, source: 'default' } },
      lastRefusal: { at: '2026-01-02T03:04:05.678Z', source: 'configmap/tuning', problems: ['TTL must be 1000 to 600000, got 5'] },
    }),
    instances: () =>
      Promise.resolve([
        { id: 'pod-1:abc', startedAt: '2026-01-02T03:04:05.678Z', version: '0.1.0', state: 'ready', ownedThreads: 1, self: true },
      ]),
    drain: () => void state.drains++,
  };
  const health: HealthView = {
    live: () => ({ ok: state.live }),
    ready: () => (state.ready ? { ok: true } : { ok: false, reasons: ['the store cannot be reached'] }),
    started: () => ({ ok: state.started }),
  };
  const app = createApp({
    service,
    agents: new AgentRegistry([echoAgent]),
    operations: embeddedOperations(),
    operator,
    health,
    limits: { bodyBytes: 100_000 },
    logger,
    heartbeatMs: 25_000,
    ...options,
  });
  const listening = await listen(app, 0, '127.0.0.1');
  const url = `http://127.0.0.1:${listening.port}`;
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  return { app, service, logger, state, url, post, close: (graceMs = 1000) => listening.close(graceMs) };
}

export type HttpRig = Awaited<ReturnType<typeof startHttp>>;
