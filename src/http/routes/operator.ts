/** `/v1`: for whoever runs the pods. */

import { z } from 'zod';

import type { ThreadService } from '../../threads/thread-service.ts';
import type { OperatorView } from '../ports.ts';
import { parsed } from '../route.ts';
import type { Route } from '../route.ts';

const threadState = z.object({
  thread: z.object({ resourceId: z.string(), threadId: z.string() }),
  owner: z.string().optional(),
  fencingToken: z.number().optional(),
  /** Milliseconds until the lease ends, by the store's clock. */
  leaseRemainingMs: z.number().optional(),
  /** Signals that wait. */
  waiting: z.number(),
});

const ownedThread = threadState.extend({
  agentId: z.string().optional(),
  runId: z.string().optional(),
  runStartedAt: z.string().optional(),
});

const settingsReport = z.object({
  effective: z.record(
    z.string(),
    z.object({ value: z.union([z.string(), z.number(), z.boolean(), z.null()]), source: z.string() }),
  ),
  lastRefusal: z.object({ at: z.string(), source: z.string(), problems: z.array(z.string()) }).optional(),
});

const instanceReport = z.object({
  id: z.string(),
  startedAt: z.string(),
  version: z.string(),
  state: z.enum(['starting', 'ready', 'draining', 'unready']),
  ownedThreads: z.number(),
  self: z.boolean(),
});

const threadsQuery = z.object({
  /** At most so many of each kind. */
  limit: z.coerce
    .number({ error: 'must be a whole number from 1 to 1000' })
    .int({ error: 'must be a whole number from 1 to 1000' })
    .min(1)
    .max(1000)
    .default(100),
});

export interface OperatorRoutesOptions {
  readonly service: ThreadService;
  readonly operator: OperatorView;
}

export function operatorRoutes({ service, operator }: OperatorRoutesOptions): Route[] {
  return [
    {
      method: 'get',
      path: '/v1/threads',
      summary: 'Threads that this instance runs, and threads with waiting signals, oldest first, whoever owns them; of each at most `limit`.',
      query: threadsQuery,
      answers: {
        200: {
          description: 'Owned here, and waiting anywhere.',
          schema: z.object({ owned: z.array(ownedThread), waiting: z.array(threadState) }),
        },
      },
      handle: async (request, response) => {
        const { limit } = parsed(threadsQuery, request.query, 'query');
        const owned = service.owned().slice(0, limit).map(async run => ({ ...run, ...(await service.inspect(run.thread)) }));
        response.json({ owned: await Promise.all(owned), waiting: await service.waiting(limit) });
      },
    },
    {
      method: 'get',
      path: '/v1/threads/:resourceId/:threadId',
      summary: 'One thread: owner, token, time left, waiting signals; and its run, if that is here.',
      answers: { 200: { description: 'The thread. One that nobody ever used is idle, not unknown.', schema: ownedThread } },
      handle: async (request, response) => {
        const thread = { resourceId: String(request.params['resourceId']), threadId: String(request.params['threadId']) };
        const run = service
          .owned()
          .find(owned => owned.thread.resourceId === thread.resourceId && owned.thread.threadId === thread.threadId);
        response.json({ ...run, ...(await service.inspect(thread)) });
      },
    },
    {
      method: 'get',
      path: '/v1/settings',
      summary: 'The settings in effect, where each came from, and the last set that was refused.',
      answers: { 200: { description: 'Secrets are masked.', schema: settingsReport } },
      handle: (_request, response) => void response.json(operator.settings()),
    },
    {
      method: 'get',
      path: '/v1/instances',
      summary: 'The instances that this one knows of.',
      answers: { 200: { description: 'Itself at least.', schema: z.object({ instances: z.array(instanceReport) }) } },
      handle: async (_request, response) => void response.json({ instances: await operator.instances() }),
    },
    {
      method: 'post',
      path: '/v1/drain',
      summary: 'Drains this instance and ends it, as SIGTERM does.',
      answers: { 202: { description: 'The drain has begun.', schema: z.object({ draining: z.literal(true) }) } },
      handle: (_request, response) => {
        operator.drain();
        response.status(202).json({ draining: true });
      },
    },
  ];
}
