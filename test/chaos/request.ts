/** A request to a pod that may be down, stopped or cut off. */

import type { Pod } from './fleet.ts';

/** Longest wait for an answer. */
const answerLimitMs = 3000;

export interface PodAnswer<T> {
  readonly ok: boolean;
  readonly status: number;
  readonly answer: T & { error?: unknown };
}

/** `undefined`: there was no answer, and nobody knows what became of the request. */
export async function ask<T>(pod: Pod, path: string, body: unknown): Promise<PodAnswer<T> | undefined> {
  try {
    const response = await fetch(`${pod.process.url}/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(answerLimitMs),
    });
    return { ok: response.ok, status: response.status, answer: (await response.json()) as T & { error?: unknown } };
  } catch {
    return undefined;
  }
}
