/** `/v1`, on signals that wait and signals that were given up. */

import type { Request } from 'express';
import { z } from 'zod';

import type { DeadLetter, MailboxOperations } from '../../contracts/mailbox-operations.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import { parsed } from '../route.ts';
import type { Route } from '../route.ts';

const limitQuery = z.object({
  /** At most so many. */
  limit: z.coerce
    .number({ error: 'must be a whole number from 1 to 1000' })
    .int({ error: 'must be a whole number from 1 to 1000' })
    .min(1)
    .max(1000)
    .default(100),
});

const threadRef = z.object({ resourceId: z.string(), threadId: z.string() });

const deadLetter = z.object({
  id: z.string(),
  agentId: z.string(),
  signal: z.looseObject({ id: z.string(), type: z.string() }),
  /** How often it had been given to a run. */
  attempts: z.number(),
  /** When it was given up. */
  at: z.string(),
});

const replayBody = z.object({ ids: z.array(z.string().min(1)).min(1).optional() });
const cancelBody = z.object({ signalIds: z.array(z.string().min(1)).min(1).optional() });

export function mailboxRoutes(operations: MailboxOperations): Route[] {
  return [...deadLetterRoutes(operations), cancelRoute(operations)];
}

function deadLetterRoutes(operations: MailboxOperations): Route[] {
  return [
    {
      method: 'get',
      path: '/v1/dead-letters',
      summary: 'Threads with signals that were given up, those with the newest first.',
      query: limitQuery,
      answers: { 200: { description: 'The threads.', schema: z.object({ threads: z.array(threadRef) }) } },
      handle: async (request, response) => {
        const { limit } = parsed(limitQuery, request.query, 'query');
        response.json({ threads: await operations.threadsWithDeadLetters(limit) });
      },
    },
    {
      method: 'get',
      path: '/v1/threads/:resourceId/:threadId/dead-letters',
      summary: 'The signals of a thread that were given up, oldest first.',
      query: limitQuery,
      answers: { 200: { description: 'The signals.', schema: z.object({ deadLetters: z.array(deadLetter) }) } },
      handle: async (request, response) => {
        const { limit } = parsed(limitQuery, request.query, 'query');
        const letters = await operations.deadLetters(threadOf(request), limit);
        response.json({ deadLetters: letters.map(shown) });
      },
    },
    {
      method: 'post',
      path: '/v1/threads/:resourceId/:threadId/dead-letters/replay',
      summary: 'Puts dead letters back at the end of the inbox: those with these ids, or all.',
      body: replayBody,
      answers: { 200: { description: 'How many went back.', schema: z.object({ replayed: z.number() }) } },
      handle: async (request, response) => {
        const { ids } = parsed(replayBody, request.body);
        response.json({ replayed: await operations.replay(threadOf(request), ids) });
      },
    },
  ];
}

function cancelRoute(operations: MailboxOperations): Route {
  return {
    method: 'post',
    path: '/v1/threads/:resourceId/:threadId/cancel',
    summary: 'Discards waiting signals: those with these ids, or all. What a run was given stays its own.',
    body: cancelBody,
    answers: { 200: { description: 'Which signals went.', schema: z.object({ cancelledSignalIds: z.array(z.string()) }) } },
    handle: async (request, response) => {
      const { signalIds } = parsed(cancelBody, request.body);
      response.json({ cancelledSignalIds: await operations.cancel(threadOf(request), signalIds) });
    },
  };
}

function threadOf(request: Request): ThreadRef {
  return { resourceId: String(request.params['resourceId']), threadId: String(request.params['threadId']) };
}

function shown({ id, envelope, attempts, at }: DeadLetter) {
  return { id, agentId: envelope.agentId, signal: envelope.signal, attempts, at };
}
