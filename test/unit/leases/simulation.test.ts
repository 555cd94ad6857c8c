import { describe, expect, it } from 'vitest';

import { failOpenAcquire, lateClockAcquire, NaiveKeeper } from '../../support/lease-mutants.ts';
import type { Mistakes } from '../../support/lease-mutants.ts';
import { simulate } from '../../support/lease-simulation.ts';
import type { SimulationParts } from '../../support/lease-simulation.ts';
import { Violation } from '../../support/lease-simulation-judge.ts';

/** `LEASE_SEED` plays one history again, `LEASE_STEPS` makes histories longer. */
const firstSeed = Number(process.env['LEASE_SEED'] ?? 1);
const steps = Number(process.env['LEASE_STEPS'] ?? 25_000);
const histories = process.env['LEASE_SEED'] ? 1 : 16;

async function firstViolation(parts: Partial<SimulationParts>): Promise<string | undefined> {
  for (let seed = firstSeed; seed < firstSeed + 40; seed++) {
    try {
      await simulate({ seed, steps, parts });
    } catch (error) {
      if (error instanceof Violation) return error.invariant;
      throw error;
    }
  }
  return undefined;
}

const naive = (mistakes: Mistakes): Partial<SimulationParts> => ({ keeper: options => new NaiveKeeper(options, mistakes) });

describe('several instances, a store and a bad network, in virtual time', () => {
  it('L1 to L7 hold after every step', { timeout: 60_000 }, async () => {
    const seen = { operations: 0, effects: 0, grants: 0, lost: 0, expired: 0, refused: 0, accepted: 0, revocations: 0 };
    for (let seed = firstSeed; seed < firstSeed + histories; seed++) {
      const judge = await simulate({ seed, steps });
      for (const what of Object.keys(seen) as (keyof typeof seen)[]) seen[what] += judge[what];
    }
    // Whatever can go wrong has gone wrong; otherwise the above says little.
    for (const what of Object.keys(seen) as (keyof typeof seen)[]) expect(seen[what], what).toBeGreaterThan(0);
    expect(seen.operations).toBeGreaterThan(histories * steps * 0.3);
  });

  it('the same seed is the same history', async () => {
    const [first, second] = [await simulate({ seed: 7, steps: 5000 }), await simulate({ seed: 7, steps: 5000 })];
    expect(first.operations).toBe(second.operations);
    expect(first.grants).toBe(second.grants);
  });

  it('a keeper that is simple and right is found right', { timeout: 60_000 }, async () => {
    expect(await firstViolation(naive({}))).toBeUndefined();
  });
});

describe('what the simulation must notice', () => {
  it.each<[string, Partial<SimulationParts>, string[]]>([
    ['a deadline that counts from the reply', naive({ countsFromReply: true }), ['L1', 'L2']],
    ['a grant that counts from its reply', { acquire: lateClockAcquire }, ['L1', 'L2']],
    ['no deadline: the run goes on without an answer, as in the original', naive({ knowsNoDeadline: true }), ['L1', 'L2']],
    ['a "no" that stops the timer and not the run, as in the original', naive({ ignoresNo: true }), ['L1', 'L3']],
    ['silence taken for "no"', naive({ takesSilenceForNo: true }), ['L3']],
    ['trust in the monotonic clock', naive({ trustsMonotonicClock: true }), ['L1', 'L2']],
    ['no allowance for clocks', naive({ hasNoAllowance: true }), ['L1', 'L2']],
    ['a deadline that only a timer looks at', naive({ checksByTimerOnly: true }), ['L1']],
    ['an acquire that lets everyone run when the store is away, as in the original', { acquire: failOpenAcquire }, ['L4']],
    ['a counter of tokens that goes with its key', { countersSurvive: false }, ['L5']],
    ['writes that nobody checks', { fence: false }, ['L6']],
    ['a lease that is given up before its work has stopped', { stopsBeforeRelease: false }, ['L7']],
  ])('%s', { timeout: 60_000 }, async (_what, parts, invariants) => {
    expect(invariants).toContain(await firstViolation(parts));
  });
});
