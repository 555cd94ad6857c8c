/** Time by hand: `advance` moves both clocks and fires the timers that fall due, in order. */

import type { Clock, Timer } from '../../src/core/clock.ts';

export class FakeClock implements Clock {
  #monotonicMs = 1_000;
  #wallMs = 1_700_000_000_000;
  #timers: { atMs: number; sequence: number; action: () => void }[] = [];
  #sequence = 0;

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  wallMs(): number {
    return this.#wallMs;
  }

  after(delayMs: number, action: () => void): Timer {
    const timer = { atMs: this.#monotonicMs + Math.max(0, delayMs), sequence: this.#sequence++, action };
    this.#timers.push(timer);
    return { cancel: () => void (this.#timers = this.#timers.filter(other => other !== timer)) };
  }

  get pendingTimers(): number {
    return this.#timers.length;
  }

  /** Lets promise callbacks run between timers, so that what one timer started can set the next. */
  async advance(durationMs: number): Promise<void> {
    const endMs = this.#monotonicMs + durationMs;
    for (;;) {
      await settleMicrotasks();
      const next = this.#timers
        .filter(timer => timer.atMs <= endMs)
        .sort((a, b) => a.atMs - b.atMs || a.sequence - b.sequence)[0];
      if (!next) break;
      this.#timers = this.#timers.filter(timer => timer !== next);
      this.#move(next.atMs);
      next.action();
    }
    this.#move(endMs);
    await settleMicrotasks();
  }

  /** The machine was suspended or the event loop was blocked: time passed and no timer fired. */
  stall(durationMs: number, clocks: 'both' | 'wall' = 'both'): void {
    if (clocks === 'both') this.#monotonicMs += durationMs;
    this.#wallMs += durationMs;
  }

  #move(toMs: number): void {
    if (toMs <= this.#monotonicMs) return;
    this.#wallMs += toMs - this.#monotonicMs;
    this.#monotonicMs = toMs;
  }
}

async function settleMicrotasks(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}
