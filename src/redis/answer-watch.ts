/**
 * How long a server has kept us waiting. The hard deadline of a connection that mostly listens: a half-open socket never fails by
 * itself.
 */

import type { Clock } from '../core/clock.ts';

export interface AnswerRules {
  /** Longest wait for an answer, ms. */
  readonly limitMs: number;
  /** Without any answer for so long, ms, one is asked for. */
  readonly quietMs: number;
  readonly ask: () => Promise<unknown>;
  /** The answer is overdue. */
  readonly giveUp: () => void;
}

export class AnswerWatch {
  readonly #clock: Clock;
  /** Of the oldest question since the last answer; 0 while there is none. */
  #askedMs = 0;
  #answeredMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#answeredMs = clock.monotonicMs();
  }

  /** Since the server last answered, whether it was asked or not. */
  get silenceMs(): number {
    return this.#clock.monotonicMs() - this.#answeredMs;
  }

  asked(): void {
    this.#askedMs ||= this.#clock.monotonicMs();
  }

  answered(): void {
    this.#askedMs = 0;
    this.#answeredMs = this.#clock.monotonicMs();
  }

  /** Called now and then while the connection stands. */
  check({ limitMs, quietMs, ask, giveUp }: AnswerRules): void {
    if (this.#askedMs > 0 && this.#clock.monotonicMs() - this.#askedMs > limitMs) {
      this.#askedMs = 0;
      giveUp();
    } else if (this.#askedMs === 0 && this.silenceMs >= quietMs) {
      this.asked();
      // Who could not be asked is not waited for: the connection is gone, or says no.
      ask().then(() => this.answered(), () => void (this.#askedMs = 0));
    }
  }
}
