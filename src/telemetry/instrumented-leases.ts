/** Leases that show what they do. What the store answers is passed on untouched, failures included. */

import { context, ROOT_CONTEXT } from '@opentelemetry/api';

import { isBatchLeaseProvider } from '../contracts/lease-provider.ts';
import type { BatchLeaseProvider, HeldKey, LeaseAcquisition, LeaseProvider } from '../contracts/lease-provider.ts';
import type { AcquireOutcome } from '../core/outcomes.ts';
import type { Instrumentation } from './instrumentation.ts';
import { failureOutcome, leaseAttributes, LeaseRecorder } from './lease-recorder.ts';
import type { Moment } from './lease-recorder.ts';
import { spanKeys } from './names.ts';

/** Links of one failed batch; they show whose leases it was about. */
const maxLinks = 64;

export function instrumentLeases(leases: BatchLeaseProvider, instrumentation: Instrumentation): BatchLeaseProvider;
export function instrumentLeases(leases: LeaseProvider, instrumentation: Instrumentation): LeaseProvider;
export function instrumentLeases(leases: LeaseProvider, instrumentation: Instrumentation): LeaseProvider {
  return isBatchLeaseProvider(leases)
    ? new InstrumentedBatchLeases(leases, instrumentation)
    : new InstrumentedLeases(leases, instrumentation);
}

class InstrumentedLeases implements LeaseProvider {
  protected readonly on: Instrumentation;
  protected readonly recorder: LeaseRecorder;
  readonly #inner: LeaseProvider;
  #renewals = 0;

  constructor(inner: LeaseProvider, instrumentation: Instrumentation) {
    this.#inner = inner;
    this.on = instrumentation;
    this.recorder = new LeaseRecorder(instrumentation);
  }

  async acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    const at = this.moment();
    const attributes = () => leaseAttributes(this.on, key, owner, ttlMs);
    try {
      const answer = await this.#inner.acquireLease(key, owner, ttlMs);
      const outcome = this.#acquireOutcome(key, owner, answer);
      const span = this.recorder.record({
        operation: 'acquire',
        outcome,
        at,
        attributes: () => ({
          ...attributes(),
          ...(answer.fencingToken === undefined ? {} : { [spanKeys.fencingToken]: answer.fencingToken }),
          ...(outcome === 'held' && answer.owner !== undefined ? { [spanKeys.currentOwner]: answer.owner } : {}),
        }),
      });
      if (outcome === 'acquired') {
        const token = answer.fencingToken === undefined ? {} : { fencingToken: answer.fencingToken };
        this.on.leases.acquired(key, { owner, acquiredIn: span.spanContext(), askedAtMs: at.start.monotonicMs, ...token });
      }
      return answer;
    } catch (error) {
      this.recorder.record({ operation: 'acquire', outcome: failureOutcome(error), at, attributes, error });
      throw error;
    }
  }

  getLeaseOwner(key: string): Promise<string | undefined> {
    return this.#inner.getLeaseOwner(key);
  }

  async releaseLease(key: string, owner: string): Promise<void> {
    const at = this.moment();
    const attributes = () => leaseAttributes(this.on, key, owner);
    try {
      await this.#inner.releaseLease(key, owner);
      this.recorder.record({ operation: 'release', outcome: 'released', at, attributes });
      if (this.on.leases.of(key, owner)) this.on.leases.ended(key);
    } catch (error) {
      this.recorder.record({ operation: 'release', outcome: 'error', at, attributes, error });
      throw error;
    }
  }

  async renewLease(key: string, owner: string, ttlMs: number): Promise<boolean> {
    const at = this.moment();
    try {
      const kept = await context.with(ROOT_CONTEXT, () => this.#inner.renewLease(key, owner, ttlMs));
      this.renewed({ key, owner }, kept, ttlMs, at);
      return kept;
    } catch (error) {
      const durationMs = this.recorder.measure('renew', failureOutcome(error), at.start, error);
      this.renewalFailed([{ key, owner }], ttlMs, { at, error, durationMs });
      throw error;
    }
  }

  async transferLease(key: string, fromOwner: string, toOwner: string, ttlMs: number): Promise<boolean> {
    const at = this.moment();
    const attributes = () => ({
      ...leaseAttributes(this.on, key, fromOwner, ttlMs),
      [spanKeys.owner]: toOwner,
      [spanKeys.previousOwner]: fromOwner,
    });
    try {
      const done = await this.#inner.transferLease(key, fromOwner, toOwner, ttlMs);
      const outcome = done ? 'transferred' : 'not_owner';
      const span = this.recorder.record({ operation: 'transfer', outcome, at, attributes });
      if (done) {
        this.on.leases.acquired(key, { owner: toOwner, acquiredIn: span.spanContext(), askedAtMs: at.start.monotonicMs });
      }
      return done;
    } catch (error) {
      this.recorder.record({ operation: 'transfer', outcome: 'error', at, attributes, error });
      throw error;
    }
  }

  protected moment(): Moment {
    return { start: this.recorder.now(), within: context.active() };
  }

  /** One answered renewal: always a point, a span when it was lost or its turn has come. */
  protected renewed(lease: HeldKey, kept: boolean, ttlMs: number, at: Moment): void {
    const outcome = kept ? 'renewed' : 'lost';
    const durationMs = this.recorder.measure('renew', outcome, at.start);
    const times = { askedAtMs: at.start.monotonicMs, nowMs: at.start.monotonicMs + durationMs, ttlMs };
    const headroom = kept ? this.on.leases.renewed(lease.key, lease.owner, times) : undefined;
    if (!kept || this.#isSampled()) {
      const links = this.on.leases.linksTo(lease.key, lease.owner);
      const attributes = () => ({
        ...leaseAttributes(this.on, lease.key, lease.owner, ttlMs),
        ...(headroom === undefined ? {} : { [spanKeys.headroom]: headroom }),
      });
      this.recorder.show({ operation: 'renew', outcome, at, attributes, links }, durationMs);
    }
    if (!kept && this.on.leases.of(lease.key, lease.owner)) this.on.leases.ended(lease.key);
  }

  /** One call that failed, however many leases it was for: a span each would only repeat it. */
  protected renewalFailed(
    leases: readonly HeldKey[],
    ttlMs: number,
    failure: { at: Moment; error: unknown; durationMs: number },
  ): void {
    const first = leases[0];
    if (!first) return;
    const attributes = () =>
      leases.length === 1
        ? leaseAttributes(this.on, first.key, first.owner, ttlMs)
        : { [spanKeys.batchSize]: leases.length, [spanKeys.ttlMs]: ttlMs };
    const links = leases.slice(0, maxLinks).flatMap(lease => this.on.leases.linksTo(lease.key, lease.owner));
    const { at, error, durationMs } = failure;
    this.recorder.show({ operation: 'renew', outcome: failureOutcome(error), at, attributes, links, error }, durationMs);
  }

  #isSampled(): boolean {
    const every = this.on.renewalSampling;
    return every > 0 && this.#renewals++ % every === 0;
  }

  #acquireOutcome(key: string, owner: string, answer: LeaseAcquisition): AcquireOutcome {
    if (!answer.acquired) return 'held';
    return this.on.leases.of(key, owner) ? 'already_owned' : 'acquired';
  }
}

class InstrumentedBatchLeases extends InstrumentedLeases implements BatchLeaseProvider {
  readonly #inner: BatchLeaseProvider;

  constructor(inner: BatchLeaseProvider, instrumentation: Instrumentation) {
    super(inner, instrumentation);
    this.#inner = inner;
  }

  /** Every lease of a batch counts by itself, so that a share of failures means the same with and without batches. */
  async renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<(boolean | Error)[]> {
    const at = this.moment();
    try {
      const answers = await context.with(ROOT_CONTEXT, () => this.#inner.renewLeases(leases, ttlMs));
      this.#answered(leases, answers, ttlMs, at);
      return answers;
    } catch (error) {
      this.#failed(leases, ttlMs, at, error);
      throw error;
    }
  }

  #answered(leases: readonly HeldKey[], answers: readonly (boolean | Error)[], ttlMs: number, at: Moment): void {
    const failed: HeldKey[] = [];
    let lastError: unknown;
    for (const [index, lease] of leases.entries()) {
      const answer = answers[index] ?? false;
      if (typeof answer === 'boolean') this.renewed(lease, answer, ttlMs, at);
      else failed.push(lease);
      lastError = typeof answer === 'boolean' ? lastError : answer;
    }
    if (failed.length > 0) this.#failed(failed, ttlMs, at, lastError);
  }

  #failed(leases: readonly HeldKey[], ttlMs: number, at: Moment, error: unknown): void {
    const outcome = failureOutcome(error);
    let durationMs = 0;
    for (const _ of leases) durationMs = this.recorder.measure('renew', outcome, at.start, error);
    this.renewalFailed(leases, ttlMs, { at, error, durationMs });
  }
}
