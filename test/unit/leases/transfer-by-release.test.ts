import { describe, expect, it } from 'vitest';

import { MemoryLeaseProvider } from '../../../src/memory/memory-leases.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { PlainLeases } from '../../support/lease-plain.ts';

const ttlMs = 1000;

function opened() {
  const provider = new PlainLeases(new MemoryLeaseProvider(new FakeClock()));
  return { provider, take: (owner: string) => provider.acquireLease('k', owner, ttlMs) };
}

/** What every provider promises of a hand-over, this one does too: see the contract suite. */
describe('a hand-over by release and acquire', () => {
  it('leaves the key with a third who takes it in between, and says so', async () => {
    const { provider, take } = opened();
    await take('a');
    provider.whileEmpty = async () => void (await take('third'));
    expect(await provider.transferLease('k', 'a', 'b', ttlMs)).toBe(false);
    expect(await provider.getLeaseOwner('k')).toBe('third');
  });

  it('takes nothing from a third when its own lease has ended', async () => {
    const { provider, take } = opened();
    await take('third');
    expect(await provider.transferLease('k', 'a', 'b', ttlMs)).toBe(false);
    expect(await provider.getLeaseOwner('k')).toBe('third');
  });

  it('that failed half-way may be asked again', async () => {
    const { provider, take } = opened();
    await take('a');
    provider.whileEmpty = () => Promise.reject(new Error('the connection broke'));
    await expect(provider.transferLease('k', 'a', 'b', ttlMs)).rejects.toThrow('broke');
    provider.whileEmpty = () => Promise.resolve();
    expect(await provider.transferLease('k', 'a', 'b', ttlMs)).toBe(false); // nobody's now: acquire decides
    expect(await take('b')).toMatchObject({ acquired: true });
  });
});
