/** Which leases this instance holds, as far as its spans need to know: where each was acquired and when last renewed. */

import type { Context, Link, SpanContext } from '@opentelemetry/api';
import { TraceFlags } from '@opentelemetry/api';

import { parseOwner } from '../contracts/thread.ts';
import { spanKeys } from './names.ts';

export interface KnownLease {
  readonly owner: string;
  /** Of the span that acquired it or took it by transfer. */
  readonly acquiredIn: SpanContext;
  readonly fencingToken?: number;
  /** `performance.now()` before the last successful acquire or renewal was asked for. */
  readonly askedAtMs: number;
  /** Of the run that it is held for, once that is on. */
  readonly run?: Context;
}

/** More leases than a process can run; reached only if ends are never reported. Then the oldest are forgotten. */
const maxKnown = 100_000;

export class LeaseRegistry {
  readonly #known = new Map<string, KnownLease>();

  acquired(key: string, lease: KnownLease): void {
    this.#known.delete(key);
    this.#known.set(key, lease);
    if (this.#known.size <= maxKnown) return;
    const oldest = this.#known.keys().next();
    if (!oldest.done) this.#known.delete(oldest.value);
  }

  /** Share of the TTL that was left at `nowMs`, 0 to 1; `undefined` for a lease that is not known. */
  renewed(key: string, owner: string, times: { askedAtMs: number; nowMs: number; ttlMs: number }): number | undefined {
    const lease = this.of(key, owner);
    if (!lease) return undefined;
    this.#known.set(key, { ...lease, askedAtMs: times.askedAtMs });
    return Math.min(1, Math.max(0, 1 - (times.nowMs - lease.askedAtMs) / times.ttlMs));
  }

  /** The lease is held for this run, whose owner id names it. */
  runStarted(key: string, runId: string, run: Context): void {
    const lease = this.ofRun(key, runId);
    if (lease) this.#known.set(key, { ...lease, run });
  }

  ofRun(key: string, runId: string): KnownLease | undefined {
    const lease = this.#known.get(key);
    return lease && parseOwner(lease.owner).runId === runId ? lease : undefined;
  }

  of(key: string, owner: string): KnownLease | undefined {
    const lease = this.#known.get(key);
    return lease?.owner === owner ? lease : undefined;
  }

  ended(key: string): void {
    this.#known.delete(key);
  }

  get size(): number {
    return this.#known.size;
  }

  /** A link to where the lease was acquired; none when that span was not sampled and would lead nowhere. */
  linksTo(key: string, owner: string): Link[] {
    return linksToAcquire(this.of(key, owner));
  }
}

export function linksToAcquire(lease: KnownLease | undefined): Link[] {
  const context = lease?.acquiredIn;
  if (!context || (context.traceFlags & TraceFlags.SAMPLED) === 0) return [];
  return [{ context, attributes: { [spanKeys.link]: 'acquire' } }];
}
