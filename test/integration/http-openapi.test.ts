/** The document against the running server: its routes, and the answers that they really give. */

import type { Express } from 'express';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';

import { SignalsError } from '../../src/core/errors.ts';
import { startHttp } from '../support/agents/http-rig.ts';
import type { HttpRig } from '../support/agents/http-rig.ts';

type Schema = z.core.JSONSchema.JSONSchema;
interface Content {
  content?: Record<string, { schema: Schema }>;
}
interface Operation {
  summary: string;
  security?: unknown;
  parameters: { name: string; in: string }[];
  requestBody?: Content;
  responses: Record<string, Content>;
}
interface Document {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: { Error: Schema } };
}

const thread = { resourceId: 'user-1', threadId: 'thread-1' };

let rig: HttpRig;
let document: Document;
beforeEach(async () => {
  rig = await startHttp();
  document = (await (await fetch(`${rig.url}/v1/openapi.json`)).json()) as Document;
});
afterEach(() => rig.close());

/** Fields that a schema does not name are an error here, though clients must bear with them. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== 'object' || schema === null) return schema;
  const copy: Record<string, unknown> = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, strict(value)]));
  return copy['type'] === 'object' && 'properties' in copy && !('additionalProperties' in copy)
    ? { ...copy, additionalProperties: false }
    : copy;
}

function problemsOf(schema: Schema | undefined, value: unknown): unknown {
  expect(schema).toBeDefined();
  return z.fromJSONSchema(strict(schema) as Schema).safeParse(value).error?.issues;
}

const answerSchema = (path: string, method: string, status: number) =>
  document.paths[path]?.[method]?.responses[status]?.content?.['application/json']?.schema;

describe('the OpenAPI document', () => {
  it('has every route of the server, and no other', () => {
    interface Layer {
      route?: { path: string; methods: Record<string, boolean> };
    }
    const stack = (rig.app.handler as Express).router.stack as unknown as Layer[];
    const served = stack.flatMap(({ route }) => (route ? Object.keys(route.methods).map(method => `${method} ${route.path}`) : []));
    const told = Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map(method => `${method} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`),
    );
    expect(document.openapi).toBe('3.1.0');
    expect(told.length).toBeGreaterThan(10);
    expect(told.sort()).toEqual(served.sort());
  });

  it('names the parameters of each path, and which routes want a token', () => {
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const operation of Object.values(operations)) {
        const inPath = operation.parameters.filter(parameter => parameter.in === 'path').map(parameter => parameter.name);
        expect(inPath).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(match => match[1]));
        expect(operation.security !== undefined).toBe(!path.endsWith('z'));
        expect(operation.summary).not.toBe('');
      }
    }
    expect(document.paths['/v1/threads']?.['get']?.parameters.map(parameter => parameter.name)).toEqual(['limit']);
  });

  it('says what each route answers', async () => {
    rig.service.ownedThreads = [
      { thread, owner: 'pod-1/run-1', fencingToken: 7, leaseRemainingMs: 9, waiting: 2, agentId: 'echo', runId: 'run-1', runStartedAt: '2026-01-02T03:04:05.678Z' },
    ];
    rig.service.waitingThreads = [{ thread, waiting: 1, owner: 'pod-2/run-2', fencingToken: 3, leaseRemainingMs: 5 }];
    const answers: [path: string, method: 'get' | 'post', url: string, body?: unknown, status?: number][] = [
      ['/api/agents', 'get', '/api/agents'],
      ['/api/agents/{agentId}', 'get', '/api/agents/echo'],
      ['/api/agents/{agentId}/send-message', 'post', '/api/agents/echo/send-message', { ...thread, message: 'x' }],
      ['/api/agents/{agentId}/queue-message', 'post', '/api/agents/echo/queue-message', { ...thread, message: 'x' }],
      ['/api/agents/{agentId}/signals', 'post', '/api/agents/echo/signals', { ...thread, signal: { type: 'user', contents: 'x', tagName: 't' } }],
      ['/api/agents/{agentId}/threads/abort', 'post', '/api/agents/echo/threads/abort', thread],
      ['/v1/threads', 'get', '/v1/threads?limit=5'],
      ['/v1/threads/{resourceId}/{threadId}', 'get', '/v1/threads/user-1/thread-1'],
      ['/v1/dead-letters', 'get', '/v1/dead-letters'],
      ['/v1/threads/{resourceId}/{threadId}/dead-letters', 'get', '/v1/threads/user-1/thread-1/dead-letters?limit=5'],
      ['/v1/threads/{resourceId}/{threadId}/dead-letters/replay', 'post', '/v1/threads/user-1/thread-1/dead-letters/replay', { ids: ['1-0'] }],
      ['/v1/threads/{resourceId}/{threadId}/cancel', 'post', '/v1/threads/user-1/thread-1/cancel', {}],
      ['/v1/settings', 'get', '/v1/settings'],
      ['/v1/instances', 'get', '/v1/instances'],
      ['/v1/openapi.json', 'get', '/v1/openapi.json'],
      ['/v1/drain', 'post', '/v1/drain', {}, 202],
      ['/livez', 'get', '/livez'],
      ['/readyz', 'get', '/readyz'],
      ['/startupz', 'get', '/startupz'],
    ];
    for (const [path, method, url, body, status = 200] of answers) {
      const sent = document.paths[path]?.[method]?.requestBody?.content?.['application/json']?.schema;
      if (sent) expect([path, problemsOf(sent, body)]).toEqual([path, undefined]);
      const response = method === 'get' ? await fetch(rig.url + url) : await rig.post(url, body);
      expect([path, response.status]).toEqual([path, status]);
      expect([path, problemsOf(answerSchema(path, method, status), await response.json())]).toEqual([path, undefined]);
    }
    // The one that is left answers with a stream.
    const covered = new Set(answers.map(([path]) => path));
    expect(Object.keys(document.paths).filter(path => !covered.has(path))).toEqual(['/api/agents/{agentId}/threads/subscribe']);
  });

  it('says what errors look like, and unready probes', async () => {
    rig.state.ready = false;
    expect(problemsOf(answerSchema('/readyz', 'get', 503), await (await fetch(`${rig.url}/readyz`)).json())).toBeUndefined();
    const bodies = [
      await rig.post('/api/agents/echo/send-message', {}),
      await rig.post('/api/agents/nobody/send-message', {}),
      await fetch(`${rig.url}/nowhere`),
    ];
    rig.service.failure = new SignalsError('SIG_STORE_UNAVAILABLE', 'away');
    bodies.push(await fetch(`${rig.url}/v1/threads`));
    for (const body of bodies) expect(problemsOf(document.components.schemas.Error, await body.json())).toBeUndefined();
  });

  it('describes bodies that the server then takes or refuses', async () => {
    const schema = document.paths['/api/agents/{agentId}/signals']?.['post']?.requestBody?.content?.['application/json']?.schema;
    for (const wrong of [{ signal: { type: 5, contents: 'x' } }, { ...thread, signal: { type: 'user' } }, { ...thread }]) {
      expect(problemsOf(schema, wrong)).toBeDefined();
      expect((await rig.post('/api/agents/echo/signals', wrong)).status).toBe(400);
    }
  });
});
