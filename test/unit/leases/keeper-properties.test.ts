/**
 * The keeper beside a model of it, over random histories. The model knows only which renewals were confirmed, and when
 * they were asked for; the clocks do with it what they like.
 */

import * as fc from 'fast-check';
import { expect, it } from 'vitest';

import { elapsedMs, instant } from '../../../src/core/clock.ts';
import type { Instant } from '../../../src/core/clock.ts';
import { isSignalsError } from '../../../src/core/errors.ts';
import { LeaseKeeper } from '../../../src/leases/lease-keeper.ts';
import type { HeldLease } from '../../../src/leases/lease-keeper.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { ScriptedLeases } from '../../support/lease-scripted.ts';

type Step =
  | { do: 'hold'; ageMs: number; ttlMs: number }
  | { do: 'pass'; ms: number }
  | { do: 'stall'; ms: number; clocks: 'both' | 'wall' }
  | { do: 'set wall back'; ms: number }
  | { do: 'answer'; which: number; how: ('yes' | 'no' | 'error')[] }
  | { do: 'fail'; which: number }
  | { do: 'drop'; which: number }
  | { do: 'settings'; ttlMs: number };

const ttlMs = fc.constantFrom(1000, 3000, 15_000);
const which = fc.nat(20);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('hold' as const), ageMs: fc.constantFrom(0, 10, 700, 2000), ttlMs }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 4000 }) }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 400 }) }),
  fc.record({ do: fc.constant('stall' as const), ms: fc.integer({ min: 0, max: 9000 }), clocks: fc.constantFrom('both' as const, 'wall' as const) }),
  fc.record({ do: fc.constant('set wall back' as const), ms: fc.integer({ min: 1, max: 20_000 }) }),
  fc.record({
    do: fc.constant('answer' as const), which,
    how: fc.array(fc.oneof({ weight: 6, arbitrary: fc.constant('yes' as const) }, fc.constantFrom('no' as const, 'error' as const)), { minLength: 1, maxLength: 5 }),
  }),
  fc.record({ do: fc.constant('fail' as const), which }),
  fc.record({ do: fc.constant('drop' as const), which }),
  fc.record({ do: fc.constant('settings' as const), ttlMs }),
);

interface ModelHold {
  readonly held: HeldLease;
  /** The longest, as it looked when it was confirmed: from when it was asked for, and for how long. */
  promise: { askedAt: Instant; ttlMs: number; driftMs: number };
  end?: 'SIG_LEASE_LOST' | 'SIG_LEASE_EXPIRED' | 'dropped';
}

function settingsFor(ttl: number) {
  return { ttlMs: ttl, renewIntervalMs: ttl / 3, driftMs: Math.min(ttl / 4, ttl / 100 + 500) };
}

class Bench {
  readonly clock = new FakeClock();
  readonly provider = new ScriptedLeases(() => this.#noteAsked());
  settings = settingsFor(3000);
  readonly keeper = new LeaseKeeper({
    provider: this.provider, settings: () => this.settings, clock: this.clock, random: () => 0.37,
  });
  readonly holds: ModelHold[] = [];
  /** When each request was sent; the allowance is that of then. */
  readonly asked: { at: Instant; driftMs: number; answered: boolean }[] = [];

  async play(step: Step): Promise<void> {
    switch (step.do) {
      case 'hold':
        return this.#hold(step.ageMs, step.ttlMs);
      case 'pass':
        return await this.clock.advance(step.ms);
      case 'stall':
        return this.clock.stall(step.ms, step.clocks);
      case 'set wall back':
        return this.clock.stall(-step.ms, 'wall');
      case 'answer':
        return await this.#answer(step.which, step.how);
      case 'fail':
        return await this.#settle(step.which, at => this.provider.asked[at]!.fail(new Error('away')));
      case 'drop':
        return this.#drop(step.which);
      case 'settings':
        this.settings = settingsFor(step.ttlMs);
    }
  }

  #hold(ageMs: number, ttl: number): void {
    const now = instant(this.clock);
    const askedAt = { monotonicMs: now.monotonicMs - ageMs, wallMs: now.wallMs - ageMs };
    const { driftMs } = this.settings;
    const owner = `o${this.holds.length}`;
    let held: HeldLease | undefined;
    try {
      held = this.keeper.hold({ key: `k${owner}`, owner, ttlMs: ttl, askedAt });
    } catch (error) {
      expect(isSignalsError(error, 'SIG_LEASE_EXPIRED')).toBe(true);
    }
    expect(held !== undefined).toBe(ttl - driftMs - ageMs > 0);
    if (held) this.holds.push({ held, promise: { askedAt, ttlMs: ttl, driftMs } });
  }

  /** Called for each request as it is sent. */
  #noteAsked(): number {
    this.asked.push({ at: instant(this.clock), driftMs: this.settings.driftMs, answered: false });
    return this.clock.monotonicMs();
  }

  async #answer(which: number, how: readonly ('yes' | 'no' | 'error')[]): Promise<void> {
    await this.#settle(which, at => {
      const request = this.provider.asked[at]!;
      const answers = request.leases.map((_, lease) => how[lease % how.length]!);
      for (const [lease, { owner }] of request.leases.entries()) this.#hear(owner, answers[lease]!, at, request.ttlMs);
      request.answer(answers.map(answer => (answer === 'error' ? new Error('away') : answer === 'yes')));
    });
  }

  async #settle(which: number, action: (at: number) => void): Promise<void> {
    const open = this.asked.flatMap(({ answered }, at) => (answered ? [] : [at]));
    const at = open[which % (open.length || 1)];
    if (at === undefined) return;
    this.asked[at]!.answered = true;
    action(at);
    for (let turn = 0; turn < 20; turn++) await Promise.resolve(); // promises only: no timer may run
  }

  #hear(owner: string, answer: 'yes' | 'no' | 'error', at: number, ttl: number): void {
    const hold = this.holds.find(({ held }) => held.grant.owner === owner)!;
    if (hold.end || answer === 'error') return;
    if (answer === 'no') hold.end = 'SIG_LEASE_LOST';
    else if (this.remainingMs(hold) <= 0) hold.end = 'SIG_LEASE_EXPIRED';
    else {
      const promise = { askedAt: this.asked[at]!.at, ttlMs: ttl, driftMs: this.asked[at]!.driftMs };
      if (this.remainingMs({ promise }) > this.remainingMs(hold)) hold.promise = promise;
    }
  }

  #drop(which: number): void {
    const hold = this.holds[which % (this.holds.length || 1)];
    if (!hold) return;
    hold.held.drop('released');
    hold.end ??= 'dropped';
  }

  remainingMs({ promise: { askedAt, ttlMs: ttl, driftMs } }: Pick<ModelHold, 'promise'>): number {
    return ttl - driftMs - elapsedMs(this.clock, askedAt);
  }

  check(): void {
    for (const hold of this.holds) {
      const { held } = hold;
      let thrown: unknown;
      const abortedBefore = held.signal.aborted;
      try {
        held.assertHeld();
      } catch (error) {
        thrown = error;
      }
      if (!hold.end && this.remainingMs(hold) <= 0) hold.end = 'SIG_LEASE_EXPIRED';
      if (hold.end === undefined) expect([thrown, held.signal.aborted]).toEqual([undefined, false]);
      else if (hold.end === 'dropped') expect([isSignalsError(thrown), held.signal.aborted]).toEqual([true, false]);
      else expect(held.signal.reason).toMatchObject({ code: hold.end });
      if (abortedBefore) expect(hold.end).toBeDefined();
    }
    expect(this.keeper.heldCount).toBe(this.holds.filter(({ end }) => end === undefined).length);
  }
}

it('any history of answers, silences, stalls and clock jumps ends leases when the model says, and no sooner', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 25 }), async steps => {
      const bench = new Bench();
      for (const each of steps) {
        await bench.play(each);
        bench.check();
      }
      bench.keeper.close();
      expect(bench.clock.pendingTimers).toBe(0);
    }),
    { numRuns: 5000 },
  );
});
