/** `/api`: the routes of the Mastra server that its client uses for threads. */

import type { Request, Response } from 'express';
import { z } from 'zod';

import type { AgentDefinition } from '../../contracts/agent.ts';
import type { Turn } from '../../contracts/signal.ts';
import type { ThreadRef } from '../../contracts/thread.ts';
import type { NewSignal, SendOutcome, SendRequest, ThreadService } from '../../threads/thread-service.ts';
import type { AgentDirectory } from '../ports.ts';
import { parsed } from '../route.ts';
import type { Route } from '../route.ts';
import { abortBody, identifier, keyHeader, messageBody, resumeHeader, sendSignalBody, subscribeBody } from '../schemas.ts';
import type { MessageBody, SendSignalBody } from '../schemas.ts';
import type { OpenStreams } from '../sse.ts';

export interface AgentRoutesOptions {
  readonly service: ThreadService;
  readonly agents: AgentDirectory;
  readonly streams: OpenStreams;
}

const agentDetails = z.looseObject({ id: z.string(), name: z.string(), description: z.string().optional() });

const accepted = z.object({
  /** `false` after `blocked` only: the signal is not kept. */
  accepted: z.boolean(),
  /**
   * The run that was woken or is on. A signal that can't join it (a queued turn, or for another agent) runs after it. Not there
   * when nothing is on, and after a `wake` on an instance that is full or drains: a peer takes the thread.
   */
  runId: z.string().optional(),
  signal: z.looseObject({ id: z.string(), type: z.string(), createdAt: z.string() }),
  action: z.enum(['wake', 'deliver', 'persist', 'discard', 'blocked']),
  /** Of `blocked`: the run that the signal was meant for is another agent's. */
  reason: z.literal('thread-blocked').optional(),
  owner: z.string().optional(),
  fencingToken: z.number().optional(),
  duplicate: z.boolean(),
});

const abortion = z.object({
  aborted: z.boolean(),
  runId: identifier.optional(),
  /** Signals that waited and were discarded along with it. */
  cancelledSignalIds: z.array(z.string()),
});

const took = { 200: { description: 'Accepted and stored, and this is what became of it.', schema: accepted } };

export function agentRoutes(options: AgentRoutesOptions): Route[] {
  return [...lookupRoutes(options), ...sendRoutes(options), ...threadRoutes(options)];
}

function lookupRoutes({ agents }: AgentRoutesOptions): Route[] {
  return [
    {
      method: 'get',
      path: '/api/agents',
      summary: 'The agents of this instance, by id.',
      answers: { 200: { description: 'By id.', schema: z.record(z.string(), agentDetails) } },
      handle: (_request, response) => {
        response.json(Object.fromEntries(agents.list().map(agent => [agent.id, detailsOf(agent)])));
      },
    },
    {
      method: 'get',
      path: '/api/agents/:agentId',
      summary: 'One agent.',
      answers: { 200: { description: 'The agent.', schema: agentDetails } },
      handle: (request, response) => void response.json(detailsOf(agentOf(request, agents))),
    },
  ];
}

function sendRoutes({ service, agents }: AgentRoutesOptions): Route[] {
  const send = async (response: Response, request: SendRequest) => {
    response.json(acceptance(await service.send(request)));
  };
  const sendMessage = (turn: Turn) => (request: Request, response: Response) => {
    const agentId = agentOf(request, agents).id;
    const body = parsed(messageBody, request.body);
    return send(response, { agentId, ...sendOptions(body, turn), signal: withKey(request, messageSignal(body.message)) });
  };
  return [
    {
      method: 'post',
      path: '/api/agents/:agentId/send-message',
      summary: 'A message into the run that is on, or one that starts a run.',
      body: messageBody,
      answers: took,
      handle: sendMessage('current'),
    },
    {
      method: 'post',
      path: '/api/agents/:agentId/queue-message',
      summary: 'A message for a turn of its own, after those before it.',
      body: messageBody,
      answers: took,
      handle: sendMessage('next'),
    },
    {
      method: 'post',
      path: '/api/agents/:agentId/signals',
      summary: 'A signal of any type.',
      body: sendSignalBody,
      answers: took,
      handle: (request, response) => {
        const agentId = agentOf(request, agents).id;
        const body = parsed(sendSignalBody, request.body);
        return send(response, { agentId, ...sendOptions(body, 'current'), signal: withKey(request, body.signal) });
      },
    },
  ];
}

function threadRoutes({ service, agents, streams }: AgentRoutesOptions): Route[] {
  return [
    {
      method: 'post',
      path: '/api/agents/:agentId/threads/subscribe',
      summary: 'What the runs of a thread put out, as server-sent events. `Last-Event-ID` resumes.',
      body: subscribeBody,
      answers: { 200: { description: 'One chunk an event.', contentType: 'text/event-stream' } },
      handle: (request, response) => {
        const agent = agentOf(request, agents);
        const body = parsed(subscribeBody, request.body);
        const after = resumeFrom(request) ?? body.lastEventId;
        return streams.serve(request, response, signal => service.follow(threadOf(body, agent), signal, after));
      },
    },
    {
      method: 'post',
      path: '/api/agents/:agentId/threads/abort',
      summary: 'Stops the run of a thread, on whichever instance it is.',
      body: abortBody,
      answers: { 200: { description: 'Whether a run was told to stop, and which.', schema: abortion } },
      handle: async (request, response) => {
        const agent = agentOf(request, agents);
        const body = parsed(abortBody, request.body);
        const { expectedRunId, clearPendingSignals } = body;
        response.json(await service.abort(threadOf(body, agent), { expectedRunId, clearPendingSignals }));
      },
    },
  ];
}

/** Throws `SIG_AGENT_UNKNOWN`. */
function agentOf(request: Request, agents: AgentDirectory): AgentDefinition {
  return agents.get(String(request.params['agentId']));
}

function threadOf(body: { resourceId?: string | undefined; threadId: string }, agent: AgentDefinition): ThreadRef {
  return { resourceId: body.resourceId ?? agent.id, threadId: body.threadId };
}

function messageSignal(message: MessageBody['message']): NewSignal {
  if (typeof message === 'string' || Array.isArray(message)) return { type: 'user', contents: message };
  return { ...message, type: 'user' };
}

/** With `Idempotency-Key`, senders whose message has no id can also repeat it without running it twice. */
function withKey(request: Request, signal: NewSignal): NewSignal {
  const header = request.get('Idempotency-Key');
  if (signal.id !== undefined || header === undefined) return signal;
  return { ...signal, id: parsed(keyHeader, { 'Idempotency-Key': header })['Idempotency-Key'] };
}

/** A client that has seen no event yet may send the header empty. */
function resumeFrom(request: Request): string | undefined {
  const header = request.get('Last-Event-ID');
  return header ? parsed(resumeHeader, { 'Last-Event-ID': header })['Last-Event-ID'] : undefined;
}

function sendOptions(body: MessageBody | SendSignalBody, turn: Turn): Omit<SendRequest, 'agentId' | 'signal'> {
  const { resourceId, threadId, runId, ifActive, ifIdle } = body;
  const { streamOptions, ...idle } = ifIdle ?? {};
  const thread = resourceId !== undefined && threadId !== undefined ? { resourceId, threadId } : undefined;
  return { target: { thread, runId }, turn, ifActive, ifIdle: ifIdle && idle, runOptions: streamOptions };
}

function acceptance({ runId, signal, action, owner, fencingToken, duplicate }: SendOutcome): z.infer<typeof accepted> {
  const blocked = action === 'blocked';
  return { accepted: !blocked, runId, signal, action, owner, fencingToken, duplicate, ...(blocked ? { reason: 'thread-blocked' } : {}) };
}

/** The fields that the client's type says are always there, and what we know to put into them. */
function detailsOf({ id, name, description }: AgentDefinition): z.infer<typeof agentDetails> {
  const none = { tools: {}, agents: {}, workflows: {}, skills: [], workspaceTools: [], browserTools: [], hasBrowser: false };
  return { id, name, description, ...none, inputProcessors: [], outputProcessors: [] };
}
