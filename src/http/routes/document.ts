/** `/v1/openapi.json`: what this instance serves. */

import { z } from 'zod';

import { openApiDocument } from '../openapi.ts';
import type { Route } from '../route.ts';

/** Describes `routes` and itself. */
export function documentRoute(routes: readonly Route[]): Route {
  const route: Route = {
    method: 'get',
    path: '/v1/openapi.json',
    summary: 'This document.',
    answers: { 200: { description: 'OpenAPI 3.1.', schema: z.looseObject({ openapi: z.string() }) } },
    handle: (_request, response) => void response.json(document),
  };
  const document = openApiDocument([...routes, route]);
  return route;
}
