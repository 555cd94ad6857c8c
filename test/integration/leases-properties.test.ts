import * as fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, it } from 'vitest';

import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { play, sharedSteps, stepKeys } from '../support/lease-steps.ts';
import type { LeaseBench } from '../support/lease-steps.ts';
import { originalLeases } from '../support/lease-original.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';

/** Time passes by moving the end of everything closer: for the keys it is the same. */
const passScript = `
for _, key in ipairs(KEYS) do
  local at = redis.call('PEXPIRETIME', key)
  if at > 0 then redis.call('PEXPIREAT', key, at - ARGV[1]) end
end`;

let server: RedisServer;
let client: Redis;

beforeAll(async () => {
  server = await startRedis();
  client = new Redis(server.url, { maxRetriesPerRequest: 0 });
});
afterAll(async () => {
  client.disconnect();
  await server.stop();
});

function benchOf(keys: RedisKeys): LeaseBench {
  const all = stepKeys.flatMap(key => [keys.lease(key).lease, keys.lease(key).token]);
  return {
    provider: new RedisLeaseProvider(client, keys),
    original: originalLeases(client, keys.prefix),
    pass: async ms => void (await client.eval(passScript, all.length, ...all, ms)),
    evict: async (key, what) => void (await client.del(keys.lease(key)[what])),
    remainingMs: async key => {
      const remainingMs = await client.pttl(keys.lease(key).lease);
      return remainingMs < 0 ? undefined : remainingMs;
    },
  };
}

it('any history of leases on Redis, beside the original backend and with losses and evictions, is as the model says', async () => {
  let run = 0;
  await fc.assert(
    fc.asyncProperty(sharedSteps, async steps => {
      await play(steps, benchOf(new RedisKeys(`run-${run++}`)));
      if (run % 100 === 0) await client.flushall();
    }),
    { numRuns: 2000 },
  );
});
