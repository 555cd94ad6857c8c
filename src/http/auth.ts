/** Bearer tokens (RFC 6750) in front of `/api` and `/v1`. */

import { createHash, timingSafeEqual } from 'node:crypto';

import type { RequestHandler } from 'express';

import { SignalsError } from '../core/errors.ts';

/** Lets everybody through when there are no tokens. Several may be valid at once, so that they can be rotated. */
export function requireToken(tokens: readonly string[]): RequestHandler {
  const allowed = tokens.map(digest);
  return (request, _response, next) => {
    if (allowed.length > 0 && !matches(request.headers.authorization, allowed)) {
      throw new SignalsError('SIG_AUTH_REQUIRED', 'send "Authorization: Bearer <token>" with a valid token');
    }
    next();
  };
}

function matches(header: string | undefined, allowed: readonly Buffer[]): boolean {
  const token = /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1];
  if (token === undefined) return false;
  const given = digest(token);
  // Every token is compared, and digests have one length: the time taken says nothing about how close a guess was.
  let found = false;
  for (const one of allowed) found = timingSafeEqual(one, given) || found;
  return found;
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
