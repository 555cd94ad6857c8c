/** Random histories of leases, and how they are played on a provider and on the model side by side. */

import * as fc from 'fast-check';
import { expect } from 'vitest';

import type { BatchLeaseProvider, LeaseAcquisition } from '../../src/contracts/lease-provider.ts';
import { LeaseModel } from './lease-model.ts';
import type { ModelAcquisition } from './lease-model.ts';

/** `fate`: the request never arrives; or it is applied and its reply is lost, so that it is asked again. */
type Fate = 'ok' | 'request lost' | 'reply lost';

export type Step =
  | { do: 'acquire'; key: string; owner: string; ttlMs: number; fate: Fate }
  | { do: 'renew'; key: string; owner: string; ttlMs: number; fate: Fate }
  | { do: 'renew all'; leases: { key: string; owner: string }[]; ttlMs: number; fate: Fate }
  | { do: 'transfer'; key: string; owner: string; to: string; ttlMs: number; fate: Fate }
  | { do: 'release'; key: string; owner: string; fate: Fate }
  | { do: 'pass'; ms: number }
  | { do: 'evict'; key: string; what: 'lease' | 'token' | 'fence' }
  | { do: 'original acquires' | 'original renews'; key: string; owner: string; ttlMs: number };

/** What a store under test must offer besides its provider. Times are far apart, so that what a test itself takes is noise. */
export interface LeaseBench {
  provider: BatchLeaseProvider;
  pass(ms: number): Promise<void>;
  /** Milliseconds until the lease of `key` ends; `undefined` without one. Absent where it can't be seen. */
  remainingMs?(key: string): Promise<number | undefined>;
  evict?(key: string, what: 'lease' | 'token' | 'fence'): Promise<void>;
  original?: {
    acquire(key: string, owner: string, ttlMs: number): Promise<void>;
    renew(key: string, owner: string, ttlMs: number): Promise<void>;
  };
}

export const stepKeys = ['{s}:a', '{s}:b', 'c'];
const toleranceMs = 5000;

const key = fc.constantFrom(...stepKeys);
const owner = fc.constantFrom('pod-1/r1', 'pod-1/r2', 'pod-2/r3');
/** A name belongs to one process, which speaks one protocol. */
const originalOwner = fc.constantFrom('r8', 'r9');
const ttlMs = fc.constantFrom(100_000, 200_000, 400_000);
const fate = fc.oneof({ weight: 6, arbitrary: fc.constant<Fate>('ok') }, fc.constantFrom<Fate>('request lost', 'reply lost'));

const own: fc.Arbitrary<Step>[] = [
  fc.record({ do: fc.constant('acquire' as const), key, owner, ttlMs, fate }),
  fc.record({ do: fc.constant('acquire' as const), key, owner, ttlMs, fate }),
  fc.record({ do: fc.constant('renew' as const), key, owner, ttlMs, fate }),
  fc.record({ do: fc.constant('renew all' as const), leases: fc.array(fc.record({ key, owner }), { maxLength: 6 }), ttlMs, fate }),
  fc.record({ do: fc.constant('transfer' as const), key, owner, to: owner, ttlMs, fate }),
  fc.record({ do: fc.constant('release' as const), key, owner, fate }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(30_000, 80_000, 170_000) }),
];
const shared: fc.Arbitrary<Step>[] = [
  fc.record({ do: fc.constant('evict' as const), key, what: fc.constantFrom('lease' as const, 'token' as const, 'fence' as const) }),
  fc.record({ do: fc.constantFrom('original acquires' as const, 'original renews' as const), key, owner: originalOwner, ttlMs }),
];

export const ownSteps = fc.array(fc.oneof(...own), { minLength: 3, maxLength: 40 });
export const sharedSteps = fc.array(fc.oneof(...own, ...shared), { minLength: 3, maxLength: 40 });

export async function play(steps: readonly Step[], bench: LeaseBench): Promise<void> {
  const model = new LeaseModel();
  const tokens = new Tokens();
  for (const step of steps) {
    await playOne(step, bench, model, tokens);
    for (const each of stepKeys) await compare(each, bench, model);
  }
}

async function playOne(step: Step, bench: LeaseBench, model: LeaseModel, tokens: Tokens): Promise<void> {
  const { provider } = bench;
  switch (step.do) {
    case 'acquire':
      return await twice(step.fate, async () => {
        const expected = model.acquire(step.key, step.owner, step.ttlMs);
        tokens.check(step.key, expected, await provider.acquireLease(step.key, step.owner, step.ttlMs));
      });
    case 'renew':
      return await twice(step.fate, async () => {
        const expected = model.renew(step.key, step.owner, step.ttlMs);
        expect(await provider.renewLease(step.key, step.owner, step.ttlMs)).toBe(expected);
      });
    case 'renew all':
      return await twice(step.fate, async () => {
        const expected = step.leases.map(lease => model.renew(lease.key, lease.owner, step.ttlMs));
        expect(await provider.renewLeases(step.leases, step.ttlMs)).toEqual(expected);
      });
    case 'transfer':
      return await twice(step.fate, async () => {
        const before = model.lease(step.key)?.owner;
        const expected = model.transfer(step.key, step.owner, step.to, step.ttlMs);
        expect(await provider.transferLease(step.key, step.owner, step.to, step.ttlMs)).toBe(expected);
        if (expected && before !== step.to) tokens.replaced(step.key);
      });
    case 'release':
      return await twice(step.fate, async () => {
        model.release(step.key, step.owner);
        await provider.releaseLease(step.key, step.owner);
      });
    case 'pass':
      model.nowMs += step.ms;
      return await bench.pass(step.ms);
    case 'evict':
      if (step.what === 'lease') model.evictLease(step.key);
      if (step.what === 'token') model.evictToken(step.key);
      return await bench.evict?.(step.key, step.what);
    case 'original acquires':
      model.acquireByOriginal(step.key, step.owner, step.ttlMs);
      return await bench.original?.acquire(step.key, step.owner, step.ttlMs);
    case 'original renews':
      model.renewByOriginal(step.key, step.owner, step.ttlMs);
      return await bench.original?.renew(step.key, step.owner, step.ttlMs);
  }
}

async function twice(fate: Fate, action: () => Promise<void>): Promise<void> {
  if (fate === 'request lost') return;
  await action();
  if (fate === 'reply lost') await action();
}

async function compare(key: string, bench: LeaseBench, model: LeaseModel): Promise<void> {
  const expected = model.lease(key);
  expect(await bench.provider.getLeaseOwner(key)).toBe(expected?.owner);
  if (!bench.remainingMs) return;
  const remainingMs = await bench.remainingMs(key);
  if (expected) expect(Math.abs((remainingMs ?? 0) - (expected.expiresAtMs - model.nowMs))).toBeLessThan(toleranceMs);
  else expect(remainingMs).toBeUndefined();
}

/** L5: a token that is new is larger than all that this key had. */
class Tokens {
  readonly #largest = new Map<string, number>();
  readonly #current = new Map<string, number>();

  check(key: string, expected: ModelAcquisition, { fencingToken, ...answer }: LeaseAcquisition): void {
    expect(answer).toEqual({ acquired: expected.acquired, owner: expected.owner });
    if (!expected.acquired) return expect(fencingToken).toBeUndefined();
    const token = fencingToken ?? NaN;
    expect(Number.isSafeInteger(token)).toBe(true);
    const current = this.#current.get(key);
    if (expected.token === 'same' && current !== undefined) expect(token).toBe(current);
    else expect(token).toBeGreaterThan(this.#largest.get(key) ?? 0);
    this.#current.set(key, token);
    this.#largest.set(key, token);
  }

  /** The next owner has a token that nobody has seen yet. */
  replaced(key: string): void {
    this.#current.delete(key);
  }
}
