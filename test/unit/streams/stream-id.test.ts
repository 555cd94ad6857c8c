import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { keySlot } from '../../../src/redis/key-slot.ts';
import { compareIds, idBefore } from '../../../src/redis/streams/stream-id.ts';

const part = fc.bigInt(0n, 2n ** 64n - 1n);
const id = fc.tuple(part, part);
const text = ([ms, sequence]: [bigint, bigint]) => `${ms}-${sequence}`;
const value = ([ms, sequence]: [bigint, bigint]) => (ms << 64n) + sequence;

describe('stream ids', () => {
  it('are ordered as the numbers that they are', () => {
    fc.assert(
      fc.property(id, id, (a, b) => {
        const expected = value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0;
        expect(Math.sign(compareIds(text(a), text(b)))).toBe(expected);
      }),
    );
  });

  it('have a greatest id below each but the first', () => {
    fc.assert(
      fc.property(id, one => {
        fc.pre(value(one) > 0n);
        const before = idBefore(text(one)).split('-').map(BigInt) as [bigint, bigint];
        expect(value(before)).toBe(value(one) - 1n);
      }),
    );
    expect(idBefore('0-0')).toBe('0-0');
  });
});

describe('the slot of a key', () => {
  // From the Redis Cluster specification and `CLUSTER KEYSLOT`.
  it.each([
    ['123456789', 0x31c3],
    ['foo', 12182],
    ['{user1000}.following', 3443],
    ['foo{}{bar}', 8363],
    ['foo{{bar}}zap', 4015],
  ])('of %s is %i', (key, slot) => {
    expect(keySlot(key)).toBe(slot);
  });
});
