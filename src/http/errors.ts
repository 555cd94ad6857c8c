/** Which status a failure has, in one place, and the one shape in which it is told. */

import type { ErrorRequestHandler, RequestHandler, Response } from 'express';
import { z } from 'zod';

import { errorMessage, isSignalsError, SignalsError } from '../core/errors.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';

/** 4xx is the caller's to mend, 503 passes by itself, 500 is ours. `@mastra/client-js` tries again on 5xx only. */
export const statusByCode: Readonly<Record<ErrorCode, number>> = {
  SIG_REQUEST_INVALID: 400,
  SIG_REQUEST_MALFORMED: 400,
  SIG_AUTH_REQUIRED: 401,
  SIG_AGENT_UNKNOWN: 404,
  SIG_RUN_UNKNOWN: 404,
  SIG_ROUTE_UNKNOWN: 404,
  SIG_LEASE_LOST: 409,
  SIG_LEASE_EXPIRED: 409,
  SIG_RUN_ABORTED: 409,
  SIG_REQUEST_TOO_LARGE: 413,
  SIG_SIGNAL_TOO_LARGE: 413,
  SIG_INBOX_FULL: 429,
  SIG_RUNTIME_DRAINING: 503,
  SIG_OWNER_UNREACHABLE: 503,
  SIG_STORE_UNAVAILABLE: 503,
  SIG_STORE_INCOMPATIBLE: 500,
  SIG_SETTINGS_INVALID: 500,
  SIG_OPTION_INVALID: 500,
  SIG_AGENT_MODULE_INVALID: 500,
  SIG_BACKEND_MODULE_INVALID: 500,
  SIG_RUN_FAILED: 500,
  SIG_INTERNAL: 500,
};

export const errorBody = z.object({
  error: z.object({
    code: z.enum(Object.keys(statusByCode) as [ErrorCode, ...ErrorCode[]]),
    message: z.string(),
    /** The same request may succeed later, unchanged. */
    retryable: z.boolean(),
    details: z.record(z.string(), z.unknown()).optional(),
  }),
});

export type ErrorBody = z.infer<typeof errorBody>;

const retryAfterSeconds = '1';

/** Texts for the outside where the error's own may name hosts, paths or other things of the inside. */
const publicMessage: Partial<Record<ErrorCode, string>> = {
  SIG_STORE_UNAVAILABLE: 'the store cannot be reached; nothing was accepted, try again',
  SIG_OWNER_UNREACHABLE: 'the instance that runs this thread cannot be reached; try again',
};

export function answerError(response: Response, error: SignalsError): void {
  const status = statusByCode[error.code];
  const hidden = status === 500;
  const message = hidden ? 'internal error' : (publicMessage[error.code] ?? error.message);
  const details = !hidden && error.details && !(error.code in publicMessage) ? { details: error.details } : {};
  const body: ErrorBody = { error: { code: error.code, message, retryable: error.retryable, ...details } };
  if (error.retryable) response.setHeader('Retry-After', retryAfterSeconds);
  if (status === 401) response.setHeader('WWW-Authenticate', 'Bearer');
  response.status(status).json(body);
}

/** The last handler: whatever was thrown becomes an answer. */
export function errorHandler(logger: Logger): ErrorRequestHandler {
  return (thrown: unknown, request, response, _next) => {
    const error = toSignalsError(thrown);
    const fields = { method: request.method, path: request.path, code: error.code, error: errorMessage(thrown) };
    if (statusByCode[error.code] >= 500) logger.error('request failed', { ...fields, stack: stackOf(thrown) });
    else logger.debug('request refused', fields);
    // Too late for a status: cutting the connection is the only way left to say that the answer is not whole.
    if (response.headersSent) response.destroy();
    else answerError(response, error);
  };
}

export const unknownRoute: RequestHandler = request => {
  throw new SignalsError('SIG_ROUTE_UNKNOWN', `there is no ${request.method} ${request.path}`);
};

function toSignalsError(thrown: unknown): SignalsError {
  if (isSignalsError(thrown)) return thrown;
  const { type, status, limit } = parserError(thrown);
  if (type === 'entity.too.large') {
    const message = `the body must be at most ${String(limit)} bytes`;
    return new SignalsError('SIG_REQUEST_TOO_LARGE', message, { details: { limitBytes: limit } });
  }
  if (type === 'entity.parse.failed') return new SignalsError('SIG_REQUEST_MALFORMED', 'the body must be valid JSON');
  // express and its parsers mark what the client did wrong (percent-encoding, charset, aborted upload) by status.
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new SignalsError('SIG_REQUEST_MALFORMED', errorMessage(thrown));
  }
  return new SignalsError('SIG_INTERNAL', 'internal error', { cause: thrown });
}

function parserError(thrown: unknown): { type?: unknown; status?: unknown; limit?: unknown } {
  return typeof thrown === 'object' && thrown !== null ? thrown : {};
}

function stackOf(thrown: unknown): string | undefined {
  return thrown instanceof Error ? thrown.stack : undefined;
}
