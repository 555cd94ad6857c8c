import type { Hold } from './hold.ts';

/** Small beside the span that a tick renews at once: only the last of its buckets has leases that are not due yet. */
const bucketMs = 50;

/**
 * When held leases are to be renewed, on the monotonic clock: in buckets of time, so that a tick looks at what is due and not at
 * all that is held. Each lease is in the bucket of its `renewAtMs`, which nobody else sets.
 */
export class RenewalSchedule {
  readonly #buckets = new Map<number, Set<Hold>>();

  /** Sets the lease to then, whatever it was set to before. */
  set(hold: Hold, atMs: number): void {
    this.remove(hold);
    hold.renewAtMs = atMs;
    const at = bucketOf(atMs);
    const bucket = this.#buckets.get(at);
    if (bucket) bucket.add(hold);
    else this.#buckets.set(at, new Set([hold]));
  }

  remove(hold: Hold): void {
    const at = bucketOf(hold.renewAtMs);
    const bucket = this.#buckets.get(at);
    if (bucket?.delete(hold) && bucket.size === 0) this.#buckets.delete(at);
  }

  /** Takes out what is due until then. */
  takeDue(untilMs: number): Hold[] {
    const due: Hold[] = [];
    const last = bucketOf(untilMs);
    for (const [at, bucket] of this.#buckets) {
      if (at > last) continue;
      for (const hold of bucket) {
        if (hold.renewAtMs > untilMs) continue;
        bucket.delete(hold);
        due.push(hold);
      }
      if (bucket.size === 0) this.#buckets.delete(at);
    }
    return due;
  }

  /** When the first is due; `Infinity` when there is none. */
  nextMs(): number {
    let first = Infinity;
    for (const at of this.#buckets.keys()) first = Math.min(first, at);
    let next = Infinity;
    for (const hold of this.#buckets.get(first) ?? []) next = Math.min(next, hold.renewAtMs);
    return next;
  }
}

function bucketOf(atMs: number): number {
  return Math.floor(atMs / bucketMs);
}
