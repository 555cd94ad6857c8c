/** Tries a command again whose outcome is unknown. Only for commands that may be repeated. */

import { backoffMs } from '../core/backoff.ts';
import { elapsedMs, instant } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';
import { sleep } from '../core/waits.ts';
import { isTransient } from './failures.ts';

/** How long a caller may be kept waiting while Redis is away: short enough for an HTTP answer, long enough for a failover. */
const patienceMs = 2500;

export async function repeatable<T>(clock: Clock, command: () => Promise<T>): Promise<T> {
  const startedAt = instant(clock);
  for (let attempt = 1; ; attempt++) {
    try {
      return await command();
    } catch (error) {
      const pauseMs = backoffMs(attempt, 25, 500);
      if (!isTransient(error) || elapsedMs(clock, startedAt) + pauseMs > patienceMs) throw error;
      await sleep(clock, pauseMs);
    }
  }
}
