import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { Holders } from '../support/lease-holders.ts';
import type { Holder, HolderConfig } from '../support/lease-holders.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const ttlMs = 1500;

let server: RedisServer;
let holders: Holders;

beforeAll(async () => void (server = await startRedis()));
afterAll(async () => await server.stop());
beforeEach(() => void (holders = new Holders()));
afterEach(async () => await holders.stop());

/** `first` acts; `second` waits for its turn. */
async function twoHolders(manner: HolderConfig['manner'], prefix: string): Promise<[Holder, Holder]> {
  const first = await holders.start({ url: server.url, owner: `${prefix}/first`, ttlMs, manner });
  first.command({ do: 'contend' });
  await until('the first acts', () => holders.acts().length > 3);
  const second = await holders.start({ url: server.url, owner: `${prefix}/second`, ttlMs, manner: 'ours' });
  second.command({ do: 'contend' });
  await until('the second has been refused', () => second.saw('not acquired'));
  return [first, second];
}

const actsSince = (owner: string, count: number) => holders.acts(owner).length - count;

describe('an owner that was stopped (SIGSTOP) while its lease went to another', () => {
  async function stopAndGoOn(first: Holder, second: Holder): Promise<void> {
    first.pause();
    await until('the second took over', () => second.saw('started'));
    await until('the second acts', () => holders.acts(second.owner).length > 3);
    first.resume();
    await until('the second went on', () => holders.acts(second.owner).length > 30);
  }

  it('does nothing more when it goes on (case 1)', async () => {
    const [first, second] = await twoHolders('ours', 'a');
    await stopAndGoOn(first, second);
    await until('the first says that it stopped', () => first.saw('stopped'));
    expect(first.events.at(-1)).toMatchObject({ event: 'stopped', code: 'SIG_LEASE_EXPIRED' });
    expect(holders.ownerChanges()).toBe(1);
  });

  it("would go on the original's way", async () => {
    const [first, second] = await twoHolders('original', 'b');
    await stopAndGoOn(first, second);
    await until('both act', () => holders.ownerChanges() > 5);
  });
});

describe('a handler that blocks the event loop for twice the TTL', () => {
  it('finds on waking that it owns nothing, before anything else, and the process lives (case 8)', async () => {
    const [first, second] = await twoHolders('ours', 'c');
    first.command({ do: 'block', ms: 2 * ttlMs });
    await until('the second acts', () => holders.acts(second.owner).length > 3);
    await until('the first says that it stopped', () => first.saw('stopped'));
    expect(holders.ownerChanges()).toBe(1);
    expect(first.running).toBe(true);
  });

  it("would go on the original's way", async () => {
    const [first, second] = await twoHolders('original', 'd');
    first.command({ do: 'block', ms: 2 * ttlMs });
    await until('the second acts', () => holders.acts(second.owner).length > 3);
    const before = holders.acts(first.owner).length;
    await until('the first acts again', () => actsSince(first.owner, before) > 3);
  });
});
