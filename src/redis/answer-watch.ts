/**
 * How long a server has kept us waiting. The hard deadline of a connection that mostly listens: a half-open socket never fails by
 * itself.
 */

import type { Clock } from '../core/clock.ts';

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

  get waiting(): boolean {
    return this.#askedMs > 0;
  }

  /** For an answer that is still to come. */
  get waitingMs(): number {
    return this.waiting ? this.#clock.monotonicMs() - this.#askedMs : 0;
  }

  asked(): void {
    this.#askedMs ||= this.#clock.monotonicMs();
  }

  answered(): void {
    this.#askedMs = 0;
    this.#answeredMs = this.#clock.monotonicMs();
  }

  /** The connection that was asked is gone. */
  forget(): void {
    this.#askedMs = 0;
  }
}
