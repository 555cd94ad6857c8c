/** A route as data: what express serves and what the OpenAPI document says come from the same value. */

import type { Express, Request, Response } from 'express';
import type { z } from 'zod';

import { SignalsError } from '../core/errors.ts';

export interface Answer {
  readonly description: string;
  /** Absent: no JSON body. */
  readonly schema?: z.ZodType;
  /** Default `application/json`. */
  readonly contentType?: string;
}

export interface Route {
  readonly method: 'get' | 'post';
  /** As express writes it: `/v1/threads/:resourceId/:threadId`. */
  readonly path: string;
  readonly summary: string;
  readonly body?: z.ZodType;
  readonly query?: z.ZodObject;
  readonly answers: Readonly<Record<number, Answer>>;
  readonly handle: (request: Request, response: Response) => void | Promise<void>;
}

export function mount(app: Express, routes: readonly Route[]): void {
  for (const route of routes) app[route.method](route.path, (request, response) => route.handle(request, response));
}

/** What `schema` makes of `value`; `SIG_REQUEST_INVALID` names each field, what it held and what is allowed. */
export function parsed<T>(schema: z.ZodType<T>, value: unknown, where: 'body' | 'query' = 'body'): T {
  if (where === 'body' && value === undefined) {
    throw new SignalsError('SIG_REQUEST_MALFORMED', 'the body must be JSON, sent with "Content-Type: application/json"');
  }
  const result = schema.safeParse(value, { error: allowedText });
  if (result.success) return result.data;
  const problems = result.error.issues.flatMap(issue => problemsOf(issue, value));
  throw new SignalsError('SIG_REQUEST_INVALID', problems.map(problem => problem.text).join('; '), {
    details: { fields: problems.map(({ field, got, allowed }) => ({ field, got, allowed })) },
  });
}

/** What a schema allows, for schemas that do not say it in words of their own. */
const allowedText: z.core.$ZodErrorMap = issue => {
  if (issue.code === 'invalid_type') return `must be ${article(issue.expected)} ${issue.expected}`;
  if (issue.code === 'invalid_value') {
    const values = issue.values.map(value => JSON.stringify(value)).join(', ');
    return `must be ${issue.values.length > 1 ? 'one of ' : ''}${values}`;
  }
  if (issue.code === 'too_small') return issue.origin === 'number' ? `must be at least ${issue.minimum}` : 'must not be empty';
  if (issue.code !== 'too_big') return 'is not valid';
  return issue.origin === 'string' ? `must have at most ${issue.maximum} characters` : `must be at most ${issue.maximum}`;
};

function article(noun: string): string {
  return /^[aeiou]/.test(noun) ? 'an' : 'a';
}

interface Problem {
  readonly field: string;
  readonly got: string;
  readonly allowed: string;
  readonly text: string;
}

/** A union fails in every branch; the branch that got furthest is the one that its sender meant. */
function problemsOf(issue: z.core.$ZodIssue, value: unknown, base: readonly PropertyKey[] = []): Problem[] {
  const path = [...base, ...issue.path];
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const deepest = [...issue.errors].sort((a, b) => depthOf(b) - depthOf(a))[0] ?? [];
    if (depthOf(deepest) > 0) return deepest.flatMap(inner => problemsOf(inner, value, path));
  }
  const field = path.length === 0 ? 'body' : path.map(String).join('.');
  const got = shown(path.reduce<unknown>(at, value));
  return [{ field, got, allowed: issue.message, text: `${field} ${issue.message}, got ${got}` }];
}

function depthOf(issues: readonly z.core.$ZodIssue[]): number {
  return Math.max(0, ...issues.map(issue => issue.path.length));
}

function at(value: unknown, key: PropertyKey): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<PropertyKey, unknown>)[key] : undefined;
}

function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}...` : value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : JSON.stringify(value);
}
