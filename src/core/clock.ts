/**
 * Time as a port, so that tests can run it by hand.
 *
 * Elapsed time is the larger of what the monotonic and the wall clock say (L1): the monotonic one may
 * stand still while a machine is suspended, the wall clock may be set back. Erring towards "more has
 * passed" makes an owner stop early, never late.
 */

export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Milliseconds on a clock that never goes back; its zero is arbitrary. */
  monotonicMs(): number;
  /** Milliseconds since the Unix epoch. */
  wallMs(): number;
  /** Calls `action` once after `delayMs`. The timer does not keep the process alive. */
  after(delayMs: number, action: () => void): Timer;
}

/** A point in time on both clocks. */
export interface Instant {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export function instant(clock: Clock): Instant {
  return { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
}

/** Milliseconds since `since`, by whichever clock says more. */
export function elapsedMs(clock: Clock, since: Instant): number {
  return Math.max(clock.monotonicMs() - since.monotonicMs, clock.wallMs() - since.wallMs);
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
