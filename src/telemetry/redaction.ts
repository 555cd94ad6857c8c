/** Keeps secrets out of logs: by the name of the field, and by the shape of credentials in URLs. */

import type { LogFields } from '../core/logger.ts';

const hidden = '***';
/** Deeper than any field of ours; also what ends a cycle. */
const maxDepth = 6;
const maxItems = 100;

const secretNames = /^(password|passwd|passphrase|pwd|secret|clientsecret|token|authorization|proxyauthorization|apikey|privatekey|credentials?|cookie|setcookie)$/;

/** A copy that is safe to write. */
export function redacted(fields: LogFields): Record<string, unknown> {
  return objectOf(fields, 0);
}

function valueOf(name: string, value: unknown, depth: number): unknown {
  // A number of tokens is what a model used, not what opens a door.
  const isCount = typeof value === 'number' && name.toLowerCase().endsWith('tokens');
  if (isSecretName(name) && !isCount && value !== undefined && value !== null) return hidden;
  return shown(value, depth);
}

function shown(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return maskCredentials(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return typeof value === 'function' ? '[function]' : value;
  if (depth >= maxDepth) return '[deep]';
  if (value instanceof Error) return errorOf(value, depth);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'invalid date' : value.toISOString();
  if (value instanceof URL) return maskCredentials(value.href);
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Map) return objectOf(Object.fromEntries(value) as LogFields, depth + 1);
  if (value instanceof Set || Array.isArray(value)) {
    return [...(value as Iterable<unknown>)].slice(0, maxItems).map(item => shown(item, depth + 1));
  }
  return objectOf(value as LogFields, depth + 1);
}

function objectOf(fields: LogFields, depth: number): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, valueOf(name, value, depth)]));
}

/** Not the other fields of an error: a reply of Redis carries the command with its arguments. */
function errorOf(error: Error, depth: number): Record<string, unknown> {
  const code = (error as NodeJS.ErrnoException).code;
  return {
    type: error.name,
    message: maskCredentials(error.message),
    ...(code === undefined ? {} : { code }),
    ...(error.stack === undefined ? {} : { stack: maskCredentials(error.stack) }),
    ...(error.cause === undefined ? {} : { cause: shown(error.cause, depth + 1) }),
  };
}

/** `token`, `accessToken`, `X-Auth-Token`, but not `fencingToken`, which is a number that everybody may see. */
function isSecretName(name: string): boolean {
  const plain = name.replace(/[-_.\s]/g, '').toLowerCase();
  if (/fencingtokens?$/.test(plain)) return false;
  return secretNames.test(plain) || /(password|secret|token|apikey)s?$/.test(plain);
}

const userInfo = /\b([a-z][a-z0-9+.-]*:\/\/)[^/\s@]+@/gi;
const secretQuery = /([?&](?:password|token|access_token|secret|api_?key|auth)=)[^&\s"']+/gi;
const bearer = /\b(Bearer|Basic)\s+[A-Za-z0-9+/_~.=-]{6,}/g;

export function maskCredentials(text: string): string {
  return text.replace(userInfo, `$1${hidden}@`).replace(secretQuery, `$1${hidden}`).replace(bearer, `$1 ${hidden}`);
}
