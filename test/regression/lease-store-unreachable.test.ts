import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { Holders } from '../support/lease-holders.ts';
import type { Holder, HolderConfig } from '../support/lease-holders.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const ttlMs = 1500;
const leaseKey = 'mastra:topic:lease:thread:{p1}:r:t';

let server: RedisServer;
let proxy: TcpProxy;
let observer: Redis;
let holders: Holders;

beforeEach(async () => {
  server = await startRedis();
  proxy = await startTcpProxy(server.port);
  observer = new Redis(server.url);
  observer.on('error', () => {});
  holders = new Holders();
});
afterEach(async () => {
  await holders.stop();
  observer.disconnect();
  await proxy.stop();
  await server.stop();
});

async function start(name: string, manner: HolderConfig['manner']): Promise<Holder> {
  return await holders.start({ url: proxy.url, owner: name, ttlMs, manner });
}

describe('two processes that are cut off from the store', () => {
  it.each(['down', 'blackHole'] as const)('start nothing, say that it is worth another try, and one runs when it is back (%s, case 2)', async fault => {
    const pair = [await start('a/1', 'ours'), await start('b/1', 'ours')];
    proxy[fault]();
    for (const holder of pair) holder.command({ do: 'contend' });
    for (const holder of pair) await until(`${holder.owner} has failed`, () => holder.events.filter(({ event }) => event === 'failed').length > 2);
    for (const holder of pair) {
      expect(holder.events.filter(({ event }) => event === 'failed')).not.toContainEqual({ event: 'failed', retryable: false });
      expect(holder.saw('started')).toBe(false);
    }
    proxy.restore();
    await until('one acts', () => holders.acts().length > 5);
    expect(pair.filter(holder => holder.saw('started'))).toHaveLength(1);
    expect(holders.ownerChanges()).toBe(0);
  });

  it("would both run the original's way", async () => {
    const pair = [await start('a/1', 'original'), await start('b/1', 'original')];
    proxy.down();
    for (const holder of pair) holder.command({ do: 'contend' });
    await until('both act', () => pair.every(holder => holders.acts(holder.owner).length > 3));
  });
});

describe('a renewal whose reply is lost', () => {
  const acquiredAt = async (holder: Holder) => {
    holder.command({ do: 'contend' });
    await until('it acts', () => holders.acts().length > 2);
  };

  it('does not end the run (case 3)', async () => {
    const holder = await start('a/1', 'ours');
    await acquiredAt(holder);
    const before = holders.acts().length;
    proxy.dropReplies(1);
    await until('the run has gone on for three TTLs', () => holders.acts().length - before > (3 * ttlMs) / 25);
    expect(holder.saw('stopped')).toBe(false);
  });

  it('and all those after it, ends the run before the lease is free (case 3)', async () => {
    const holder = await start('a/1', 'ours');
    await acquiredAt(holder);
    proxy.blackHole(); // requests as well: what the store hears no more must end there in time
    const endsAtMs = await observer.pexpiretime(leaseKey);
    await until('the run has stopped', () => holder.saw('stopped'));
    const stopped = holder.events.at(-1);
    expect(stopped).toMatchObject({ event: 'stopped', code: 'SIG_LEASE_EXPIRED' });
    expect(stopped?.event === 'stopped' && stopped.atMs).toBeLessThan(endsAtMs);
    expect(holders.acts().at(-1)?.atMs).toBeLessThan(endsAtMs);
  });

  it('of every kind, while requests get through, ends the run as well (case 3)', async () => {
    const holder = await start('a/1', 'ours');
    await acquiredAt(holder);
    proxy.dropReplies();
    await until('the run has stopped', () => holder.saw('stopped'));
    expect(await observer.get(leaseKey)).toBe('a/1');
  });

  it("would let the run go on for ever the original's way", async () => {
    const holder = await start('a/1', 'original');
    await acquiredAt(holder);
    proxy.blackHole();
    await until('the lease has gone', async () => (await observer.exists(leaseKey)) === 0);
    const before = holders.acts().length;
    await until('the run goes on', () => holders.acts().length - before > 10);
    expect(holder.saw('stopped')).toBe(false);
  });
});

describe('a store that is killed and comes back', () => {
  it('with what it had, is no end for a run that it still knows', async () => {
    await observer.config('SET', 'appendonly', 'yes');
    await observer.config('REWRITE');
    const holder = await start('a/1', 'ours');
    holder.command({ do: 'contend' });
    await until('it acts', () => holders.acts().length > 2);
    await server.kill('SIGTERM');
    await server.restart();
    const before = holders.acts().length;
    await until('the run has gone on for two TTLs', () => holders.acts().length - before > (2 * ttlMs) / 25);
    expect(holder.saw('stopped')).toBe(false);
  });

  it('without what it had, ends the run at its next renewal, and another token is larger', async () => {
    const holder = await start('a/1', 'ours');
    holder.command({ do: 'contend' });
    await until('it acts', () => holders.acts().length > 2);
    await server.kill('SIGKILL');
    await server.restart();
    await until('the run has stopped', () => holder.saw('stopped'));
    const next = await start('b/1', 'ours');
    next.command({ do: 'contend' });
    await until('the next acts', () => holders.acts('b/1').length > 2);
    const tokens = holders.acts().map(act => act.fencingToken ?? NaN);
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(holders.ownerChanges()).toBe(1);
  });
});
