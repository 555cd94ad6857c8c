/** Hints between instances: over all nodes of a Cluster, while slots move, and over connections that went silent. */

import { afterEach, expect, test } from 'vitest';

import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { RedisConnector } from '../../src/redis/connection.ts';
import type { RedisSource } from '../../src/redis/connection.ts';
import { ShardedChannels } from '../../src/redis/sharded-channels.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const channels = Array.from({ length: 64 }, (_, at) => `hints:{p${at}}`);
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function listening(source: RedisSource) {
  const connector = new RedisConnector(source);
  const client = connector.open('commands');
  cleanups.push(() => client.disconnect());
  await client.connect();
  const sharded = new ShardedChannels({ connector, client, clock: systemClock, logger: silentLogger });
  cleanups.push(() => sharded.close());
  const heard = new Set<string>();
  const state = { resyncs: 0 };
  const listener = { onMessage: (message: string) => void heard.add(message), onResync: () => void state.resyncs++ };
  await sharded.add(channels, listener);
  const tellAll = (word: string) => Promise.all(channels.map(channel => client.spublish(channel, `${channel} ${word}`)));
  const hasAll = (word: string) => channels.every(channel => heard.has(`${channel} ${word}`));
  return { client, sharded, listener, heard, state, tellAll, hasAll };
}

/** A hint may be lost while things change, and then they are told to look; what is sent again must arrive in the end. */
async function getsThrough({ tellAll, hasAll }: Awaited<ReturnType<typeof listening>>, word: string): Promise<void> {
  await until(`hints of all channels arrive (${word})`, async () => {
    await tellAll(word).catch(() => {});
    return hasAll(word);
  });
}

test('hints come from every node of a Cluster, also when their slots have moved and a node has been replaced', async () => {
  const cluster = await startRedisCluster(3);
  cleanups.push(() => cluster.stop());
  const hints = await listening({ cluster: { nodes: cluster.seeds } });
  await hints.tellAll('at once');
  await until('all have arrived, each sent once', () => hints.hasAll('at once'));

  const [first, second] = [...cluster.nodes];
  const before = hints.state.resyncs;
  await cluster.moveSlots(first!, second!, await cluster.slotsOf(first!));
  await getsThrough(hints, 'after the move');
  expect(hints.state.resyncs).toBeGreaterThan(before);

  const replacement = await cluster.addNode();
  await cluster.moveSlots(second!, replacement, await cluster.slotsOf(second!));
  await cluster.removeNode(second!);
  await getsThrough(hints, 'after the replacement');
});

test('who stops listening hears no more, and the others do', async () => {
  const redis = await startRedis();
  cleanups.push(() => redis.stop());
  const hints = await listening({ url: redis.url });
  const other = new Set<string>();
  await hints.sharded.add(channels, { onMessage: message => void other.add(message), onResync: () => {} });
  hints.sharded.remove(channels, hints.listener);
  await hints.tellAll('left');
  await until('the other has all', () => channels.every(channel => other.has(`${channel} left`)));
  expect(hints.heard.size).toBe(0);
});

test('a subscriber whose connection went silent is connected again, and told that it may have missed something', async () => {
  const redis = await startRedis();
  cleanups.push(() => redis.stop());
  const proxy = await startTcpProxy(redis.port);
  cleanups.push(() => proxy.stop());
  const hints = await listening({ url: proxy.url });
  const [accepted, resyncs] = [proxy.accepted, hints.state.resyncs];
  proxy.blackHole();
  await until('it has been connected again', () => proxy.accepted > accepted);
  proxy.restore();
  await until('it was told', () => hints.state.resyncs > resyncs);
  await getsThrough(hints, 'after the silence');
});

test('commands whose connection went silent get a new one', async () => {
  const redis = await startRedis();
  cleanups.push(() => redis.stop());
  const proxy = await startTcpProxy(redis.port);
  cleanups.push(() => proxy.stop());
  const client = new RedisConnector({ url: proxy.url }, { commandTimeoutMs: 300 }).open('commands');
  cleanups.push(() => client.disconnect());
  await client.connect();
  const accepted = proxy.accepted;
  proxy.blackHole();
  await expect(client.get('key')).rejects.toThrow('timed out');
  await until('it has connected again', () => proxy.accepted > accepted);
});
