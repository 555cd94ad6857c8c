/** So many at once, then one more each time the interval passes. */

import type { Clock } from '../core/clock.ts';

export class TokenBucket {
  readonly #clock: Clock;
  readonly #burst: number;
  readonly #intervalMs: number;
  #tokens: number;
  #countedMs: number;

  constructor(clock: Clock, burst: number, intervalMs: number) {
    this.#clock = clock;
    this.#burst = burst;
    this.#intervalMs = intervalMs;
    this.#tokens = burst;
    this.#countedMs = clock.monotonicMs();
  }

  take(): boolean {
    const nowMs = this.#clock.monotonicMs();
    this.#tokens = Math.min(this.#burst, this.#tokens + (nowMs - this.#countedMs) / this.#intervalMs);
    this.#countedMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
