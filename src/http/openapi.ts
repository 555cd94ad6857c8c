/** The OpenAPI 3.1 document, made of the very routes that are served. */

import { z } from 'zod';

import { errorBody } from './errors.ts';
import type { Answer, Route } from './route.ts';

type Json = Record<string, unknown>;

export function openApiDocument(routes: readonly Route[]): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'signals-runtime',
      version: '1',
      description: 'Signals to threads, and the threads for their operators. Errors have one shape on every route.',
    },
    paths,
    components: {
      schemas: { Error: jsonSchema(errorBody) },
      securitySchemes: { token: { type: 'http', scheme: 'bearer', description: 'Needed when the instance has tokens.' } },
    },
  };
}

function operation(route: Route): Json {
  const guarded = route.path.startsWith('/api') || route.path.startsWith('/v1');
  return {
    summary: route.summary,
    ...(guarded ? { security: [{ token: [] }, {}] } : {}),
    parameters: [...pathParameters(route), ...queryParameters(route)],
    ...(route.body ? { requestBody: { required: true, ...json(route.body) } } : {}),
    responses: {
      ...Object.fromEntries(Object.entries(route.answers).map(([status, answer]) => [status, response(answer)])),
      default: {
        description: 'An error.',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
      },
    },
  };
}

function pathParameters(route: Route): Json[] {
  const names = [...route.path.matchAll(/:(\w+)/g)].map(match => match[1]);
  return names.map(name => ({ name, in: 'path', required: true, schema: { type: 'string' } }));
}

function queryParameters(route: Route): Json[] {
  const { properties = {} } = route.query ? jsonSchema(route.query) : {};
  return Object.entries(properties).map(([name, schema]) => ({ name, in: 'query', required: false, schema }));
}

function response({ description, schema, contentType }: Answer): Json {
  if (schema) return { description, ...json(schema) };
  return { description, ...(contentType ? { content: { [contentType]: { schema: { type: 'string' } } } } : {}) };
}

function json(schema: z.ZodType): Json {
  return { content: { 'application/json': { schema: jsonSchema(schema) } } };
}

/** What may be sent, or what is answered at least: more fields may come, so clients must not forbid them. */
function jsonSchema(schema: z.ZodType): z.core.JSONSchema.JSONSchema {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io: 'output',
    override: ({ jsonSchema: one }) => {
      if (one.additionalProperties === false) delete one.additionalProperties;
    },
  });
  return rest;
}
