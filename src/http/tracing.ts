/** One SERVER span per request, continuing the caller's trace; the rest of the request runs inside it. */

import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Span } from '@opentelemetry/api';
import {
  ATTR_ERROR_TYPE,
  ATTR_HTTP_REQUEST_METHOD,
  ATTR_HTTP_RESPONSE_STATUS_CODE,
  ATTR_HTTP_ROUTE,
  ATTR_URL_PATH,
  ATTR_URL_SCHEME,
} from '@opentelemetry/semantic-conventions';
import type { Request, RequestHandler, Response } from 'express';

const scope = 'signals-runtime.http';

/** `hidePaths`: for those who want no ids of threads on spans; the route is there all the same. */
export function traceRequests({ hidePaths = false }: { hidePaths?: boolean } = {}): RequestHandler {
  const tracer = trace.getTracer(scope);
  return (request, response, next) => {
    const parent = propagation.extract(context.active(), request.headers);
    const attributes = {
      [ATTR_HTTP_REQUEST_METHOD]: request.method,
      ...(hidePaths ? {} : { [ATTR_URL_PATH]: request.baseUrl + request.path }),
    };
    const span = tracer.startSpan(request.method, { kind: SpanKind.SERVER, attributes }, parent);
    if (span.isRecording()) {
      span.setAttribute(ATTR_URL_SCHEME, request.protocol);
      response.once('close', () => endSpan(span, request, response));
    }
    context.with(trace.setSpan(parent, span), next);
  };
}

function endSpan(span: Span, request: Request, response: Response): void {
  const route = routeOf(request);
  if (route !== undefined) {
    span.setAttribute(ATTR_HTTP_ROUTE, route);
    span.updateName(`${request.method} ${route}`);
  }
  span.setAttribute(ATTR_HTTP_RESPONSE_STATUS_CODE, response.statusCode);
  if (response.statusCode >= 500) {
    span.setAttribute(ATTR_ERROR_TYPE, String(response.statusCode));
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

/** The pattern, not the path: ids in span names would make every thread a name of its own. */
function routeOf(request: Request): string | undefined {
  const route = request.route as { path?: unknown } | undefined;
  return typeof route?.path === 'string' ? route.path : undefined;
}
