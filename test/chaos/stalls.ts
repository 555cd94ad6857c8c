/** Notices what nobody made: on a busy machine processes stand still, and Redis waits for its disk. Both are faults as well. */

import { Redis } from 'ioredis';

import type { Fault } from './history.ts';

const everyMs = 50;
/** Below this a lease is not in danger: its deadline keeps more than this from its end. */
const worthTellingMs = 300;

export type Stall = Pick<Fault, 'fromMs' | 'toMs'>;

/** Tells of each time that this process got no turn. Does not keep the process alive. */
export function watchForStalls(onStall: (stall: Stall) => void): () => void {
  let last = Date.now();
  const timer = setInterval(() => {
    const now = Date.now();
    if (now - last > everyMs + worthTellingMs) onStall({ fromMs: last, toMs: now });
    last = now;
  }, everyMs).unref();
  return () => clearInterval(timer);
}

/** Tells of each time that Redis took long for a small write, past every proxy. */
export function watchRedis(url: string, onStall: (stall: Stall) => void): () => void {
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  redis.on('error', () => {}); // it is restarted on purpose
  let asked: number | undefined;
  const timer = setInterval(() => {
    if (asked !== undefined) return;
    const fromMs = (asked = Date.now());
    redis.set('chaos:probe', '1').then(() => {
      if (Date.now() - fromMs > worthTellingMs) onStall({ fromMs, toMs: Date.now() });
    }, () => {}).finally(() => (asked = undefined));
  }, everyMs);
  return () => {
    clearInterval(timer);
    redis.disconnect();
  };
}
