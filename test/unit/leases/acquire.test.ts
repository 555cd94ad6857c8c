import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { describe, expect, it } from 'vitest';

import type { LeaseAcquisition } from '../../../src/contracts/lease-provider.ts';
import { acquire } from '../../../src/leases/acquire.ts';
import { MemoryLeaseProvider } from '../../../src/memory/memory-leases.ts';
import { FakeClock } from '../../support/fake-clock.ts';

/** Applies an acquire at once and answers after `replyMs`. */
class SlowLeases extends MemoryLeaseProvider {
  readonly #clock: FakeClock;
  readonly #replyMs: number;

  constructor(clock: FakeClock, replyMs: number) {
    super(clock);
    this.#clock = clock;
    this.#replyMs = replyMs;
  }

  override async acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    const answer = await super.acquireLease(key, owner, ttlMs);
    await new Promise<void>(resolve => void this.#clock.after(this.#replyMs, resolve));
    return answer;
  }
}

async function acquireSlowly(ttlMs: number, replyMs: number, driftMs?: number) {
  const clock = new FakeClock();
  const provider = new SlowLeases(clock, replyMs);
  const startedAtMs = clock.monotonicMs();
  const asked = acquire(provider, 'k', 'a', ttlMs, clock, driftMs);
  await clock.advance(replyMs);
  return { grant: await asked, owner: await provider.getLeaseOwner('k'), startedAtMs };
}

describe('acquire', () => {
  it('takes the time before it asks (L1)', async () => {
    const { grant, startedAtMs } = await acquireSlowly(1000, 400);
    expect(grant).toMatchObject({ key: 'k', owner: 'a', ttlMs: 1000 });
    expect(grant?.askedAt.monotonicMs).toBe(startedAtMs);
    expect(grant?.fencingToken).toBeGreaterThan(0);
  });

  it('gives back what was granted past its own deadline, and counts it as not acquired (L4)', async () => {
    expect(await acquireSlowly(1000, 900, 100)).toMatchObject({ grant: undefined, owner: undefined });
    expect(await acquireSlowly(1000, 899, 100)).toMatchObject({ owner: 'a' });
  });

  it('never takes a failure for an acquired lease (L4)', async () => {
    const clock = new FakeClock();
    const provider = new MemoryLeaseProvider(clock);
    provider.acquireLease = () => Promise.reject(new Error('unreachable'));
    await expect(acquire(provider, 'k', 'a', 1000, clock)).rejects.toThrow('unreachable');
  });

  it('answers nothing when another holds the key', async () => {
    const clock = new FakeClock();
    const provider = new MemoryLeaseProvider(clock);
    await provider.acquireLease('k', 'b', 1000);
    expect(await acquire(provider, 'k', 'a', 1000, clock)).toBeUndefined();
  });
});

describe('leases in memory', () => {
  it('keep no trace of keys whose leases have ended', async () => {
    const clock = new FakeClock();
    const provider = new MemoryLeaseProvider(clock);
    const before = heapUsed();
    for (let at = 0; at < 200_000; at++) {
      await provider.acquireLease(`key-${at}-${'x'.repeat(200)}`, 'a', 10);
      if (at % 10 === 0) clock.stall(10);
    }
    expect(heapUsed() - before).toBeLessThan(10_000_000);
    expect(await provider.getLeaseOwner('key-199999')).toBeUndefined();
  });
});

/** Without garbage. */
function heapUsed(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  return process.memoryUsage().heapUsed;
}
