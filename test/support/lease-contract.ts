/** What every provider of leases promises. One suite, run on every adapter; the peer's own backend is one of them. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { isBatchLeaseProvider } from '../../src/contracts/lease-provider.ts';
import type { LeaseProvider } from '../../src/contracts/lease-provider.ts';

export interface LeaseFixture {
  provider: LeaseProvider;
  /** Lets time pass until `key`, leased for `ttlMs`, has run out. */
  runOut(key: string, ttlMs: number): Promise<void>;
  close(): Promise<void>;
}

export interface LeaseTraits {
  /** Gives fencing tokens. */
  tokens: boolean;
  /** Answers a repeated transfer with `true`; others say `false` and leave the key with the receiver. */
  repeatsTransfer: boolean;
}

const longMs = 60_000;
const shortMs = 60;

export function leaseContract(name: string, open: () => Promise<LeaseFixture>, traits: LeaseTraits): void {
  describe(`leases on ${name}`, () => {
    let fixture: LeaseFixture;
    let provider: LeaseProvider;

    beforeEach(async () => {
      fixture = await open();
      provider = fixture.provider;
    });
    afterEach(async () => await fixture.close());

    const tokenOf = async (key: string, owner: string) => {
      const { acquired, fencingToken } = await provider.acquireLease(key, owner, longMs);
      expect(acquired).toBe(true);
      return fencingToken ?? NaN;
    };

    it('one of many that ask at once gets the lease, and the others learn who', async () => {
      const owners = Array.from({ length: 20 }, (_, at) => `owner-${at}`);
      const answers = await Promise.all(owners.map(owner => provider.acquireLease('k', owner, longMs)));
      const winners = owners.filter((_, at) => answers[at]?.acquired);
      expect(winners).toHaveLength(1);
      for (const answer of answers) expect(answer.owner).toBe(winners[0]);
      expect(await provider.getLeaseOwner('k')).toBe(winners[0]);
    });

    it('the owner that asks again has it still', async () => {
      await provider.acquireLease('k', 'a', longMs);
      expect(await provider.acquireLease('k', 'a', longMs)).toMatchObject({ acquired: true, owner: 'a' });
    });

    it('a lease ends by itself and is free then', async () => {
      await provider.acquireLease('k', 'a', shortMs);
      await fixture.runOut('k', shortMs);
      expect(await provider.getLeaseOwner('k')).toBeUndefined();
      expect(await provider.renewLease('k', 'a', longMs)).toBe(false);
      expect(await provider.acquireLease('k', 'b', longMs)).toMatchObject({ acquired: true, owner: 'b' });
    });

    it('only its owner renews it, and that makes it last', async () => {
      await provider.acquireLease('k', 'a', shortMs);
      await provider.acquireLease('other', 'a', shortMs);
      expect(await provider.renewLease('k', 'a', longMs)).toBe(true);
      expect(await provider.renewLease('k', 'b', longMs)).toBe(false);
      await fixture.runOut('other', shortMs);
      expect(await provider.getLeaseOwner('k')).toBe('a');
    });

    it('an owner that asks again gets a fresh time', async () => {
      await provider.acquireLease('k', 'a', shortMs);
      await provider.acquireLease('other', 'a', shortMs);
      await provider.acquireLease('k', 'a', longMs);
      await fixture.runOut('other', shortMs);
      expect(await provider.getLeaseOwner('k')).toBe('a');
    });

    it('only its owner releases it', async () => {
      await provider.acquireLease('k', 'a', longMs);
      await provider.releaseLease('k', 'b');
      expect(await provider.getLeaseOwner('k')).toBe('a');
      await provider.releaseLease('k', 'a');
      expect(await provider.getLeaseOwner('k')).toBeUndefined();
      await provider.releaseLease('k', 'a');
      await provider.releaseLease('never leased', 'a');
    });

    it('only its owner hands it over, and then is the owner no more', async () => {
      await provider.acquireLease('k', 'a', longMs);
      expect(await provider.transferLease('k', 'b', 'c', longMs)).toBe(false);
      expect(await provider.getLeaseOwner('k')).toBe('a');
      expect(await provider.transferLease('k', 'a', 'c', longMs)).toBe(true);
      expect(await provider.getLeaseOwner('k')).toBe('c');
      expect(await provider.renewLease('k', 'a', longMs)).toBe(false);
      await provider.releaseLease('k', 'a');
      expect(await provider.getLeaseOwner('k')).toBe('c');
    });

    it('a lease that is nobody\'s cannot be handed over', async () => {
      expect(await provider.transferLease('k', 'a', 'b', longMs)).toBe(false);
      expect(await provider.getLeaseOwner('k')).toBeUndefined();
    });

    it('a hand-over gives the receiver the whole time', async () => {
      await provider.acquireLease('k', 'a', shortMs);
      await provider.acquireLease('other', 'a', shortMs);
      await provider.transferLease('k', 'a', 'b', longMs);
      await fixture.runOut('other', shortMs);
      expect(await provider.getLeaseOwner('k')).toBe('b');
    });

    it('a hand-over that is asked again leaves the receiver the owner', async () => {
      await provider.acquireLease('k', 'a', longMs);
      await provider.transferLease('k', 'a', 'b', longMs);
      expect(await provider.transferLease('k', 'a', 'b', longMs)).toBe(traits.repeatsTransfer);
      expect(await provider.acquireLease('k', 'b', longMs)).toMatchObject({ acquired: true, owner: 'b' });
    });

    it('keys are apart, whatever is in them', async () => {
      const keys = ['a', 'a:b', 'a b', 'é\u0000', '{x}', '{x}:y', 'thread:{p1}:r:t', 'a{'];
      await Promise.all(keys.map((key, at) => provider.acquireLease(key, `owner-${at}`, longMs)));
      for (const [at, key] of keys.entries()) expect(await provider.getLeaseOwner(key)).toBe(`owner-${at}`);
    });

    it.runIf(traits.tokens)('tokens only grow, over release, hand-over and expiry, and stay with their owner (L5)', async () => {
      const tokens = [await tokenOf('k', 'a')];
      expect(await tokenOf('k', 'a')).toBe(tokens[0]);
      await provider.renewLease('k', 'a', longMs);
      expect(await tokenOf('k', 'a')).toBe(tokens[0]);
      await provider.transferLease('k', 'a', 'b', longMs);
      tokens.push(await tokenOf('k', 'b'));
      await provider.releaseLease('k', 'b');
      tokens.push(await tokenOf('k', 'b'));
      await provider.releaseLease('k', 'b');
      const short = await provider.acquireLease('k', 'c', shortMs);
      tokens.push(short.fencingToken ?? NaN);
      await fixture.runOut('k', shortMs);
      tokens.push(await tokenOf('k', 'c'));
      expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
      for (const token of tokens) expect(Number.isSafeInteger(token)).toBe(true);
    });

    it.runIf(traits.tokens)('a time that was promised is not cut short by a smaller TTL', async () => {
      await provider.acquireLease('k', 'a', longMs);
      await provider.acquireLease('other', 'a', shortMs);
      await provider.renewLease('k', 'a', shortMs);
      await provider.acquireLease('k', 'a', shortMs);
      await fixture.runOut('other', shortMs);
      expect(await provider.getLeaseOwner('k')).toBe('a');
    });

    it.runIf(traits.tokens)('a TTL that is no time is refused', async () => {
      for (const ttlMs of [0, -1, 1.5, NaN, Infinity]) {
        await expect(provider.acquireLease('k', 'a', ttlMs)).rejects.toMatchObject({ code: 'SIG_OPTION_INVALID' });
        await expect(provider.renewLease('k', 'a', ttlMs)).rejects.toMatchObject({ code: 'SIG_OPTION_INVALID' });
        await expect(provider.transferLease('k', 'a', 'b', ttlMs)).rejects.toMatchObject({ code: 'SIG_OPTION_INVALID' });
      }
      expect(await provider.getLeaseOwner('k')).toBeUndefined();
    });

    it.runIf(traits.tokens)('a batch renews each lease as if alone', async () => {
      if (!isBatchLeaseProvider(provider)) throw new Error('not a batch provider');
      const keys = Array.from({ length: 1200 }, (_, at) => `thread:{p${at % 7}}:${at}`);
      const leases = keys.map((key, at) => ({ key, owner: at % 10 === 3 ? 'b' : 'a' }));
      await Promise.all(keys.filter((_, at) => at % 10 !== 4).map(key => provider.acquireLease(key, 'a', longMs)));
      const answers = await provider.renewLeases(leases, longMs);
      expect(answers).toEqual(keys.map((_, at) => at % 10 !== 3 && at % 10 !== 4));
      expect(await provider.renewLeases([], longMs)).toEqual([]);
    });
  });
}
