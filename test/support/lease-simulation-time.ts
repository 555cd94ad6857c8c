/** Virtual time for the simulation: one true time, and the clocks of machines, which run as they like within limits. */

import type { Clock, Timer } from '../../src/core/clock.ts';

/** Seeded random numbers (mulberry32): the same seed is the same history. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** At least 0, below 1. */
  readonly next = (): number => {
    this.#state = (this.#state + 0x6d_2b_79_f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };

  between(from: number, to: number): number {
    return from + (to - from) * this.next();
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.next() * items.length)] as T;
  }
}

interface Scheduled {
  atMs: number;
  order: number;
  action: () => void;
}

/** True time, and what happens when: a binary heap. */
export class Schedule {
  nowMs = 0;
  #order = 0;
  readonly #heap: Scheduled[] = [];

  at(atMs: number, action: () => void): void {
    const heap = this.#heap;
    const item = { atMs: Math.max(atMs, this.nowMs), order: this.#order++, action };
    let at = heap.push(item) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (before(heap[above] as Scheduled, item)) break;
      heap[at] = heap[above] as Scheduled;
      at = above;
    }
    heap[at] = item;
  }

  in(delayMs: number, action: () => void): void {
    this.at(this.nowMs + delayMs, action);
  }

  /** Moves time to the next thing and does it; `false` when there is none. */
  step(): boolean {
    const first = this.#heap[0];
    if (!first) return false;
    this.#removeFirst();
    this.nowMs = first.atMs;
    first.action();
    return true;
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop() as Scheduled;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && before(heap[below + 1] as Scheduled, heap[below] as Scheduled)) below++;
      if (before(last, heap[below] as Scheduled)) break;
      heap[at] = heap[below] as Scheduled;
      at = below;
    }
    heap[at] = last;
  }
}

function before(a: Scheduled, b: Scheduled): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/**
 * A machine: its clocks run at a rate of their own, its wall clock may be stepped, and it may stop for a while. What falls
 * due meanwhile happens afterwards in any order: replies may be handled before timers.
 */
export class Machine implements Clock {
  readonly #schedule: Schedule;
  readonly #random: Random;
  readonly #rate: number;
  #wallOffsetMs: number;
  /** Time that the monotonic clock has missed, while the machine was suspended. */
  #missedMs = 0;
  #backlog: (() => void)[] | undefined;
  /** When it last went on after a stop. */
  resumedAtMs = -Infinity;

  constructor(schedule: Schedule, random: Random, largestRateError: number) {
    this.#schedule = schedule;
    this.#random = random;
    this.#rate = 1 + random.between(-largestRateError, largestRateError);
    this.#wallOffsetMs = random.between(0, 1e12);
  }

  get stopped(): boolean {
    return this.#backlog !== undefined;
  }

  monotonicMs(): number {
    return this.#rate * (this.#schedule.nowMs - this.#missedMs);
  }

  wallMs(): number {
    return this.#wallOffsetMs + this.#rate * this.#schedule.nowMs;
  }

  after(delayMs: number, action: () => void): Timer {
    const dueMs = this.monotonicMs() + Math.max(0, delayMs);
    let cancelled = false;
    const fire = () => {
      if (cancelled) return;
      const missingMs = dueMs - this.monotonicMs();
      if (missingMs > 1e-6) this.#schedule.in(missingMs / this.#rate, () => this.run(fire));
      else action();
    };
    this.#schedule.in(Math.max(0, delayMs) / this.#rate, () => this.run(fire));
    return { cancel: () => void (cancelled = true) };
  }

  /** Does something on this machine, now or when it goes on. */
  run(action: () => void): void {
    if (this.#backlog) this.#backlog.push(action);
    else action();
  }

  stepWall(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  /** `suspended`: the monotonic clock stands still as well. */
  stop(forMs: number, suspended: boolean): void {
    if (this.#backlog) return;
    this.#backlog = [];
    this.#schedule.in(forMs, () => {
      if (suspended) this.#missedMs += forMs;
      this.resumedAtMs = this.#schedule.nowMs;
      const backlog = this.#backlog ?? [];
      this.#backlog = undefined;
      // Each is a step of its own, so that promises are settled in between.
      for (const action of this.#shuffled(backlog)) this.#schedule.in(0, () => this.run(action));
    });
  }

  #shuffled(items: readonly (() => void)[]): (() => void)[] {
    return items.map(action => ({ action, key: this.#random.next() })).sort((a, b) => a.key - b.key).map(({ action }) => action);
  }
}
