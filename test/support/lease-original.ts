/** Another process on the same keys that speaks the original backend's protocol: the owner as value, and nothing else. */

import type { Redis } from 'ioredis';

const renewIfOwner = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;

export function originalLeases(client: Redis, prefix: string) {
  const leaseKey = (key: string) => `${prefix}:lease:${key}`;
  return {
    async acquire(key: string, owner: string, ttlMs: number): Promise<void> {
      await client.set(leaseKey(key), owner, 'PX', ttlMs, 'NX');
    },
    async renew(key: string, owner: string, ttlMs: number): Promise<void> {
      await client.eval(renewIfOwner, 1, leaseKey(key), owner, ttlMs);
    },
  };
}
