/**
 * The batching policy of `subscribe(..., { batch })`, shared by every backend: holds events of one subscription and
 * hands them out in runs. The handler still gets them one by one, in order.
 */

import type { Clock, Timer } from './clock.ts';
import { errorMessage, invalidOption } from './errors.ts';

export interface BatchPolicy<E> {
  maxSize?: number;
  maxWaitMs?: number;
  minIntervalMs?: number;
  isImmediate?: (event: E) => boolean;
  coalesce?: (events: E[]) => E[];
  maxBufferSize?: number;
  overflow?: 'drop-oldest' | 'drop-newest' | 'coalesce-or-drop-oldest';
}

export interface BatchItem<E> {
  readonly event: E;
  deliver(): void;
  /** Coalesced away or overflowed: counts as acked. */
  drop(): void;
  /** Neither delivered nor dropped: the subscription ended. */
  abandon(): void;
}

/** Any event type will do: identity is all that the policy looks at. */
// oxlint-disable-next-line typescript/no-explicit-any
type AnyEvent = any;

interface Held<E> {
  readonly item: BatchItem<E>;
  readonly immediate: boolean;
}

const overflows = ['drop-oldest', 'drop-newest', 'coalesce-or-drop-oldest'];

/** Throws `SIG_OPTION_INVALID`. */
export function checkBatchPolicy(policy: BatchPolicy<AnyEvent>): void {
  const least = { maxSize: 1, maxWaitMs: 0, minIntervalMs: 0, maxBufferSize: 1 } as const;
  for (const [name, min] of Object.entries(least)) {
    const value: unknown = policy[name as keyof typeof least];
    if (value === undefined || (typeof value === 'number' && Number.isInteger(value) && value >= min)) continue;
    throw invalidOption(`batch.${name}`, value, `a whole number from ${min}`);
  }
  for (const name of ['isImmediate', 'coalesce'] as const) {
    const value: unknown = policy[name];
    if (value !== undefined && typeof value !== 'function') throw invalidOption(`batch.${name}`, value, 'a function');
  }
  if (policy.overflow !== undefined && !overflows.includes(policy.overflow)) {
    throw invalidOption('batch.overflow', policy.overflow, `one of ${overflows.join(', ')}`);
  }
}

export class Batcher<E = AnyEvent> {
  readonly #policy: BatchPolicy<E>;
  readonly #clock: Clock;
  readonly #report: (problem: string, error?: unknown) => void;
  #held: Held<E>[] = [];
  #oldestMs = 0;
  #lastFlushMs = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;
  #overflowSaid = false;

  /** `report` hears of broken `coalesce` functions, `isImmediate` functions that throw, and the first overflow. */
  constructor(policy: BatchPolicy<E>, clock: Clock, report: (problem: string, error?: unknown) => void = () => {}) {
    checkBatchPolicy(policy);
    this.#policy = policy;
    this.#clock = clock;
    this.#report = report;
  }

  push(item: BatchItem<E>): void {
    const nowMs = this.#clock.monotonicMs();
    if (this.#held.length === 0) this.#oldestMs = nowMs;
    this.#held.push({ item, immediate: this.#isImmediate(item.event) });
    this.#shed();
    this.#consider(nowMs);
  }

  /** Hands out what is held, whatever the policy says. */
  flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#held.length === 0) return;
    this.#lastFlushMs = this.#clock.monotonicMs();
    const held = this.#held;
    this.#held = [];
    for (const { item } of this.#coalesced(held)) item.deliver();
  }

  /** The subscription ends: what is held is abandoned. */
  dispose(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const { item } of this.#held.splice(0)) item.abandon();
  }

  #consider(nowMs: number): void {
    const dueMs = this.#dueMs();
    if (dueMs <= nowMs) return this.flush();
    this.#timer?.cancel();
    this.#timer = dueMs === Number.POSITIVE_INFINITY ? undefined : this.#clock.after(dueMs - nowMs, () => this.flush());
  }

  /** When the events that are held are to go out. */
  #dueMs(): number {
    const { maxSize, maxWaitMs, minIntervalMs = 0 } = this.#policy;
    const earliestMs = this.#lastFlushMs + minIntervalMs;
    const full = maxSize !== undefined && this.#held.length >= maxSize;
    // Without a size or a wait there is nothing to wait for but the interval.
    const unbounded = maxSize === undefined && maxWaitMs === undefined;
    if (full || unbounded || this.#held.some(({ immediate }) => immediate)) return earliestMs;
    // A size alone would hold the last few events forever; the buffer's bound flushes at the latest.
    if (maxWaitMs === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(earliestMs, this.#oldestMs + maxWaitMs);
  }

  #isImmediate(event: E): boolean {
    try {
      return this.#policy.isImmediate?.(event) ?? false;
    } catch (error) {
      this.#report('isImmediate threw; the event waits like any other', error);
      return false;
    }
  }

  #coalesced(held: Held<E>[]): Held<E>[] {
    const { coalesce } = this.#policy;
    if (!coalesce || held.length < 2) return held;
    let kept: Set<E>;
    try {
      const answer = coalesce(held.map(({ item }) => item.event));
      kept = new Set(answer);
    } catch (error) {
      this.#report(`coalesce threw (${errorMessage(error)}); the batch is delivered as it is`, error);
      return held;
    }
    const known = new Set(held.map(({ item }) => item.event));
    if ([...kept].some(event => !known.has(event))) {
      // Events of its own making can't be acked or nacked: there is nothing they stand for.
      this.#report('coalesce answered events that it was not given; the batch is delivered as it is');
      return held;
    }
    for (const { item } of held) if (!kept.has(item.event)) item.drop();
    return held.filter(({ item }) => kept.has(item.event));
  }

  #shed(): void {
    const { maxBufferSize = 256, overflow = 'coalesce-or-drop-oldest' } = this.#policy;
    if (this.#held.length <= maxBufferSize) return;
    if (overflow === 'coalesce-or-drop-oldest') this.#held = this.#coalesced(this.#held);
    while (this.#held.length > maxBufferSize) {
      const droppable = ({ immediate }: Held<E>) => !immediate;
      const at = overflow === 'drop-newest' ? this.#held.findLastIndex(droppable) : this.#held.findIndex(droppable);
      if (at < 0) return;
      const [dropped] = this.#held.splice(at, 1);
      dropped?.item.drop();
      if (!this.#overflowSaid) this.#report('a batch buffer overflowed and events were dropped');
      this.#overflowSaid = true;
    }
  }
}
