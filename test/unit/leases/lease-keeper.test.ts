import { AsyncLocalStorage } from 'node:async_hooks';

import { beforeEach, describe, expect, it } from 'vitest';

import type { LeaseProvider } from '../../../src/contracts/lease-provider.ts';
import type { LeaseObserver } from '../../../src/contracts/observer.ts';
import type { Grant } from '../../../src/contracts/thread-mailbox.ts';
import { instant } from '../../../src/core/clock.ts';
import type { SignalsError } from '../../../src/core/errors.ts';
import { LeaseKeeper } from '../../../src/leases/lease-keeper.ts';
import type { HeldLease } from '../../../src/leases/lease-keeper.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { ScriptedLeases } from '../../support/lease-scripted.ts';

const ttlMs = 15_000;
const driftMs = 650;
const away = new Error('the store is away');

let clock: FakeClock;
let provider: ScriptedLeases;
let settings: { ttlMs: number; renewIntervalMs: number; driftMs: number };
let told: string[];
let keeper: LeaseKeeper;

const observer: LeaseObserver = {
  held: key => void told.push(`held ${key}`),
  renewed: (key, headroom) => void told.push(`renewed ${key} ${headroom.toFixed(2)}`),
  ended: (key, end, heldMs) => void told.push(`ended ${key} ${end} ${Math.round(heldMs)}`),
};

beforeEach(() => {
  clock = new FakeClock();
  provider = new ScriptedLeases(() => clock.monotonicMs());
  settings = { ttlMs, renewIntervalMs: 5000, driftMs };
  told = [];
  keeper = keeperOf(provider);
});

function keeperOf(leases: LeaseProvider, random = () => 0.5): LeaseKeeper {
  return new LeaseKeeper({ provider: leases, settings: () => settings, clock, observer, random });
}

function grant(key = 'k', changes: Partial<Grant> = {}): Grant {
  return { key, owner: 'a', ttlMs, askedAt: instant(clock), ...changes };
}

function reasonOf(held: HeldLease): string | undefined {
  return held.signal.aborted ? (held.signal.reason as SignalsError).code : undefined;
}

function codeOf(action: () => unknown): string | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    return (error as SignalsError).code;
  }
}

describe('deadline', () => {
  it('counts from before the request was sent, less the allowance (L1)', async () => {
    const askedAt = instant(clock);
    await clock.advance(2000);
    const held = keeper.hold(grant('k', { askedAt }));
    expect(held.remainingMs()).toBe(ttlMs - driftMs - 2000);
  });

  it('ends the run before the lease can end at the store, when nobody answers (L2)', async () => {
    const held = keeper.hold(grant());
    await clock.advance(ttlMs - driftMs - 1);
    expect(reasonOf(held)).toBeUndefined();
    held.assertHeld();
    await clock.advance(1);
    expect(reasonOf(held)).toBe('SIG_LEASE_EXPIRED');
    expect(codeOf(() => held.assertHeld())).toBe('SIG_LEASE_EXPIRED');
    expect(keeper.heldCount).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  it('is known after a stall before any timer has run (L1)', () => {
    const held = keeper.hold(grant());
    clock.stall(ttlMs);
    expect(codeOf(() => held.assertHeld())).toBe('SIG_LEASE_EXPIRED');
    expect(reasonOf(held)).toBe('SIG_LEASE_EXPIRED');
  });

  it('is the first thing that the timer looks at after a stall, and no renewal is sent any more', async () => {
    const held = keeper.hold(grant());
    held.signal.addEventListener('abort', () => told.push(`asked ${provider.asked.length}`));
    clock.stall(ttlMs);
    await clock.advance(0);
    expect(told.at(-1)).toBe('asked 0');
    expect(provider.asked).toHaveLength(0);
  });

  it('counts time that only the wall clock saw, as when the machine was suspended (L1)', async () => {
    const held = keeper.hold(grant());
    clock.stall(ttlMs, 'wall');
    await clock.advance(1000); // the timers stood still as well; they wake within a second
    expect(reasonOf(held)).toBe('SIG_LEASE_EXPIRED');
  });

  it('of a grant that came too late is refused at once', async () => {
    const askedAt = instant(clock);
    await clock.advance(ttlMs - driftMs);
    expect(codeOf(() => keeper.hold(grant('k', { askedAt })))).toBe('SIG_LEASE_EXPIRED');
    expect(keeper.heldCount).toBe(0);
    expect(told).toEqual([]);
  });

  it('is not revived by an answer that comes after it, however lately it was asked for', async () => {
    const held = keeper.hold(grant());
    await clock.advance(ttlMs - driftMs - 100);
    expect(clock.monotonicMs() - provider.asked.at(-1)!.atMs).toBeLessThan(2500);
    clock.stall(100); // no timer has run yet when the answer is handled
    provider.asked.at(-1)!.answer(true);
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    expect(reasonOf(held)).toBe('SIG_LEASE_EXPIRED');
  });
});

describe('renewal', () => {
  it('goes on for as long as the store agrees', async () => {
    provider.always = true;
    const held = keeper.hold(grant());
    await clock.advance(10 * ttlMs);
    expect(reasonOf(held)).toBeUndefined();
    expect(provider.asked.length).toBeGreaterThan(28);
    expect(provider.asked.length).toBeLessThan(36);
    expect(provider.asked.every(({ ttlMs: asked }) => asked === ttlMs)).toBe(true);
  });

  it('counts from before it was sent, not from its answer (L1)', async () => {
    const held = keeper.hold(grant());
    await clock.advance(4000);
    const sentAtMs = provider.asked[0]!.atMs;
    await clock.advance(3000);
    provider.asked[0]!.answer(true);
    await clock.advance(0);
    expect(held.remainingMs()).toBe(ttlMs - driftMs - (clock.monotonicMs() - sentAtMs));
  });

  it('that is answered with no ends the run at once (L3)', async () => {
    const held = keeper.hold(grant());
    await clock.advance(4000);
    provider.asked[0]!.answer(false);
    await clock.advance(0);
    expect(reasonOf(held)).toBe('SIG_LEASE_LOST');
    expect(codeOf(() => held.assertHeld())).toBe('SIG_LEASE_LOST');
    expect(told.at(-1)).toBe('ended k lost 4000');
  });

  it.each([['an error for one', (at: number) => provider.asked[at]!.answer(away)], ['an error for all', (at: number) => provider.asked[at]!.fail(away)]])(
    'that fails with %s is tried again until it works (L3)',
    async (_what, fail) => {
      const held = keeper.hold(grant());
      await clock.advance(3750);
      fail(0);
      await clock.advance(2500);
      expect(provider.asked.length).toBeGreaterThan(1);
      provider.asked.at(-1)!.answer(true);
      await clock.advance(ttlMs - driftMs - 3000);
      expect(reasonOf(held)).toBeUndefined();
    },
  );

  it('without an answer is tried several times before the deadline, with growing pauses (L3)', async () => {
    keeper.hold(grant());
    await clock.advance(ttlMs);
    const pauses = provider.asked.slice(1).map(({ atMs }, at) => atMs - provider.asked[at]!.atMs);
    expect(pauses.length).toBeGreaterThanOrEqual(4);
    expect(pauses.slice(0, 3)).toEqual(pauses.slice(0, 3).sort((a, b) => a - b));
    expect(Math.max(...pauses)).toBeLessThanOrEqual(settings.renewIntervalMs / 2);
  });

  it('may be answered late and still counts, from when it was sent', async () => {
    const held = keeper.hold(grant());
    await clock.advance(ttlMs - driftMs - 100);
    provider.asked[0]!.answer(true);
    await clock.advance(0);
    await clock.advance(200);
    expect(reasonOf(held)).toBeUndefined();
    expect(held.remainingMs()).toBeLessThan(settings.renewIntervalMs);
  });

  it('is not moved back by an older answer that comes after a newer one', async () => {
    const held = keeper.hold(grant());
    await clock.advance(6000);
    expect(provider.asked.length).toBeGreaterThan(2);
    provider.asked.at(-1)!.answer(true);
    await clock.advance(0);
    const remainingMs = held.remainingMs();
    provider.asked[0]!.answer(true);
    await clock.advance(0);
    expect(held.remainingMs()).toBe(remainingMs);
  });

  it('works with a provider that knows no batches', async () => {
    const single = new ScriptedLeases(() => clock.monotonicMs(), true);
    const plain: LeaseProvider = {
      acquireLease: (key, owner) => single.acquireLease(key, owner),
      getLeaseOwner: () => single.getLeaseOwner(),
      releaseLease: () => single.releaseLease(),
      transferLease: () => single.transferLease(),
      renewLease: (key, owner, ms) => (key === 'throws' ? Promise.reject(away) : single.renewLease(key, owner, ms)),
    };
    keeper = keeperOf(plain);
    const held = keeper.hold(grant());
    const failing = keeper.hold(grant('throws'));
    await clock.advance(ttlMs);
    expect(reasonOf(held)).toBeUndefined();
    expect(reasonOf(failing)).toBe('SIG_LEASE_EXPIRED');
  });

  it('of one lease that fails does not harm those of the others', async () => {
    const helds = ['a', 'b', 'c'].map(key => keeper.hold(grant(key)));
    await clock.advance(3750);
    provider.asked[0]!.answer([true, away, false]);
    await clock.advance(0);
    expect(helds.map(reasonOf)).toEqual([undefined, undefined, 'SIG_LEASE_LOST']);
    await clock.advance(ttlMs - driftMs - 3750);
    expect(helds.map(reasonOf)).toEqual([undefined, 'SIG_LEASE_EXPIRED', 'SIG_LEASE_LOST']);
  });

  it('of leases taken together is spread, and yet comes in batches', async () => {
    provider.always = true;
    let state = 1;
    keeper = keeperOf(provider, () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647);
    for (let at = 0; at < 1000; at++) keeper.hold(grant(`k${at}`));
    await clock.advance(5000);
    const sizes = provider.asked.map(({ leases }) => leases.length);
    expect(sizes.reduce((a, b) => a + b)).toBeGreaterThanOrEqual(1000);
    expect(Math.max(...sizes)).toBeLessThan(300);
    expect(sizes.length).toBeLessThan(30);
  });

  it('is no part of the request that took the lease', async () => {
    const context = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    provider.always = true;
    const clockInContext = { ...instantClock(clock), after: (ms: number, action: () => void) => {
      seen.push(context.getStore());
      return clock.after(ms, action);
    } };
    keeper = new LeaseKeeper({ provider, settings: () => settings, clock: clockInContext });
    context.run('request', () => keeper.hold(grant()));
    expect(seen).toEqual([undefined]);
  });
});

function instantClock(base: FakeClock) {
  return { monotonicMs: () => base.monotonicMs(), wallMs: () => base.wallMs() };
}

describe('settings', () => {
  it('a longer TTL is used from the next renewal on', async () => {
    provider.always = true;
    const held = keeper.hold(grant());
    settings = { ttlMs: 60_000, renewIntervalMs: 20_000, driftMs: 1100 };
    await clock.advance(5000);
    expect(provider.asked.map(asked => asked.ttlMs)).toEqual([60_000]);
    expect(held.remainingMs()).toBeGreaterThan(50_000);
  });

  it('a shorter TTL cuts no promise short, neither here nor at the store', async () => {
    const held = keeper.hold(grant());
    settings = { ttlMs: 2000, renewIntervalMs: 600, driftMs: 500 };
    await clock.advance(3750);
    expect(provider.asked[0]!.ttlMs).toBeGreaterThanOrEqual(ttlMs - 3750);
    provider.asked[0]!.answer(true);
    await clock.advance(0);
    expect(held.remainingMs()).toBeGreaterThanOrEqual(ttlMs - driftMs - 3750);
  });

  it('a shorter TTL is in force once the old promises have run out', async () => {
    provider.always = true;
    keeper.hold(grant());
    settings = { ttlMs: 2000, renewIntervalMs: 600, driftMs: 500 };
    await clock.advance(ttlMs + 2000);
    expect(provider.asked.at(-1)!.ttlMs).toBe(2000);
  });
});

describe('end', () => {
  it('begins with the wish to give the lease up: nothing is asked from then on, and it is ours to its deadline', async () => {
    const held = keeper.hold(grant());
    held.stopRenewing();
    await clock.advance(ttlMs - driftMs - 1);
    expect(provider.asked).toHaveLength(0);
    held.assertHeld();
    await clock.advance(1);
    expect(reasonOf(held)).toBe('SIG_LEASE_EXPIRED');
    expect(clock.pendingTimers).toBe(0);
  });

  it('a dropped lease is renewed no more, and whatever is answered later is no loss', async () => {
    const held = keeper.hold(grant());
    await clock.advance(4000);
    held.drop('released');
    held.drop('lost');
    provider.asked[0]!.answer(false);
    await clock.advance(ttlMs);
    expect(reasonOf(held)).toBeUndefined();
    expect(codeOf(() => held.assertHeld())).toBe('SIG_LEASE_LOST');
    expect(provider.asked).toHaveLength(1);
    expect(told).toEqual(['held k', 'ended k released 4000']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('closing tells those who still hold, since nobody would renew for them', async () => {
    const held = keeper.hold(grant());
    keeper.close();
    keeper.close();
    expect(reasonOf(held)).toBe('SIG_LEASE_EXPIRED');
    expect(told.at(-1)).toBe('ended k abandoned 0');
    expect(codeOf(() => keeper.hold(grant()))).toBe('SIG_LEASE_EXPIRED');
    expect(clock.pendingTimers).toBe(0);
  });

  it('the observer hears how much of the time was left at a renewal', async () => {
    provider.always = true;
    keeper.hold(grant());
    await clock.advance(4000);
    expect(told).toEqual(['held k', `renewed k ${((ttlMs - driftMs - 3750) / ttlMs).toFixed(2)}`]);
  });

  it('the same key held anew by the next run is another lease', async () => {
    const first = keeper.hold(grant());
    await clock.advance(3750);
    first.drop('transferred');
    const second = keeper.hold(grant('k', { owner: 'b' }));
    provider.asked[0]!.answer(false);
    await clock.advance(0);
    expect(reasonOf(second)).toBeUndefined();
    expect(keeper.heldCount).toBe(1);
  });
});
