/**
 * The HTTP face of an instance.
 *
 * - routes/agents.ts    `/api`, what `@mastra/client-js` speaks
 * - routes/operator.ts  `/v1`, for operators
 * - routes/mailbox.ts   `/v1`, signals that wait and signals that were given up
 * - routes/health.ts    probes
 * - openapi.ts          the document of all of these
 * - errors.ts           which status a failure has, and its one shape
 * - sse.ts              a thread's output to its viewers
 * - server.ts           the port, and how it is closed
 */

import express from 'express';
import type { Express } from 'express';

import type { MailboxOperations } from '../contracts/mailbox-operations.ts';
import { invalidOption } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { ThreadService } from '../threads/thread-service.ts';
import { requireToken } from './auth.ts';
import { errorHandler, unknownRoute } from './errors.ts';
import type { AgentDirectory, HealthView, OperatorView } from './ports.ts';
import { mount } from './route.ts';
import { agentRoutes } from './routes/agents.ts';
import { documentRoute } from './routes/document.ts';
import { healthRoutes } from './routes/health.ts';
import { mailboxRoutes } from './routes/mailbox.ts';
import { operatorRoutes } from './routes/operator.ts';
import type { HttpApp } from './server.ts';
import { OpenStreams } from './sse.ts';
import { traceRequests } from './tracing.ts';

export interface AppOptions {
  readonly service: ThreadService;
  readonly agents: AgentDirectory;
  readonly operations: MailboxOperations;
  readonly operator: OperatorView;
  readonly health: HealthView;
  /** Each is enough for `/api` and `/v1`. None: both are open. */
  readonly tokens?: readonly string[];
  readonly limits: { readonly bodyBytes: number };
  readonly logger: Logger;
  /** Ids of threads are to be on no span. Default false. */
  readonly hideIds?: boolean;
  /** Default 25000. */
  readonly heartbeatMs?: number;
}

/** Throws `SIG_OPTION_INVALID`. */
export function createApp(options: AppOptions): HttpApp {
  const { service, agents, operations, operator, health, tokens = [], limits, logger, hideIds = false, heartbeatMs = 25_000 } = options;
  checkWhole('limits.bodyBytes', limits.bodyBytes);
  checkWhole('heartbeatMs', heartbeatMs);
  if (tokens.some(token => !/^\S+$/.test(token))) throw invalidOption('tokens', '***', 'a list of texts without spaces');
  const streams = new OpenStreams({ heartbeatMs, logger });

  const app = bareApp();
  // Probes come first: neither tokens nor traces are for them.
  mount(app, healthRoutes(health));
  app.use(['/api', '/v1'], traceRequests({ hidePaths: hideIds }), requireToken(tokens), express.json({ limit: limits.bodyBytes }));
  const routes = [
    ...agentRoutes({ service, agents, streams }),
    ...operatorRoutes({ service, operator }),
    ...mailboxRoutes(operations),
  ];
  mount(app, [...routes, documentRoute([...routes, ...healthRoutes(health)])]);
  app.use(unknownRoute);
  app.use(errorHandler(logger));
  return { handler: app, endStreams: () => streams.endAll() };
}

export interface MetricsAppOptions {
  /** The whole page in the Prometheus text format. */
  readonly collect: () => Promise<string>;
  readonly logger: Logger;
}

/** For the metrics port, which stays inside the cluster. */
export function createMetricsApp({ collect, logger }: MetricsAppOptions): HttpApp {
  const app = bareApp();
  app.get('/metrics', async (_request, response) => {
    const page = await collect();
    response.setHeader('Content-Type', 'text/plain; version=0.0.4; charset=utf-8');
    response.send(page);
  });
  app.use(unknownRoute);
  app.use(errorHandler(logger));
  return { handler: app, endStreams() {} };
}

function bareApp(): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  return app;
}

function checkWhole(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1) throw invalidOption(name, value, 'a whole number of at least 1');
}
