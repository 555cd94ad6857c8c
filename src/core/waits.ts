/** Waits that end: by time, by abort, by limit. Nothing here leaves a timer or a listener behind. */

import type { Clock } from './clock.ts';
import { SignalsError } from './errors.ts';

/** Resolves after `delayMs`, or at once when `signal` aborts. Never rejects. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise(resolve => {
    const done = () => {
      timer.cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = clock.after(delayMs, done);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** Resolves when `signal` aborts; `cancel` drops the listener of a wait that nobody needs any more. */
export function aborted(signal: AbortSignal): { promise: Promise<void>; cancel: () => void } {
  let cancel = () => {};
  const promise = new Promise<void>(resolve => {
    if (signal.aborted) return resolve();
    const onAbort = () => resolve();
    signal.addEventListener('abort', onAbort, { once: true });
    cancel = () => signal.removeEventListener('abort', onAbort);
  });
  return { promise, cancel };
}

/** The value of `work`, or `undefined` when `signal` aborts first. For work that may never end; what becomes of it is ignored. */
export function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve(undefined);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    // Not a race with one promise for all calls: each would leave a reaction on it until the signal aborts.
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/**
 * The value of `work`, or `SIG_STORE_UNAVAILABLE` when `limitMs` passes first. The work itself goes on: whoever
 * calls this must be able to live with its late effect.
 */
export function withLimit<T>(clock: Clock, limitMs: number, what: string, work: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = clock.after(limitMs, () =>
      reject(new SignalsError('SIG_STORE_UNAVAILABLE', `${what} gave no answer within ${limitMs} ms`)),
    );
    work.then(resolve, reject).finally(() => timer.cancel());
  });
}

/** Whether `work` settled within `limitMs`; its failure counts as settled. */
export async function settledWithin(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<boolean> {
  const limit = new AbortController();
  const late = sleep(clock, limitMs, limit.signal).then(() => false);
  const settled = work.then(
    () => true,
    () => true,
  );
  const inTime = await Promise.race([settled, late]);
  limit.abort();
  return inTime;
}
