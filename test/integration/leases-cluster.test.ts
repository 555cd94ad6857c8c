import type { Cluster } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { RedisConnector } from '../../src/redis/connection.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { checkStore } from '../../src/redis/store-check.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import type { RedisCluster } from '../support/redis-cluster.ts';
import { until } from '../support/until.ts';

const ttlMs = 60_000;
const keys = new RedisKeys();
const threads = Array.from({ length: 640 }, (_, at) => `thread:{p${at % 64}}:r:${at}`);
const leases = threads.map(key => ({ key, owner: 'a' }));

let cluster: RedisCluster;
let client: Cluster;
let provider: RedisLeaseProvider;

beforeAll(async () => {
  cluster = await startRedisCluster();
  const connector = new RedisConnector({ cluster: { nodes: cluster.seeds } }, { commandTimeoutMs: 1000 });
  client = connector.open('commands') as Cluster;
  await client.connect();
  provider = new RedisLeaseProvider(client, keys);
  await Promise.all(threads.map(key => provider.acquireLease(key, 'a', ttlMs)));
});
afterAll(async () => {
  client.disconnect();
  await cluster.stop();
});

const renewed = async () => (await provider.renewLeases(leases, ttlMs)).filter(answer => answer === true).length;

/** In order: each leaves the cluster a little worse. */
describe('leases in a Cluster', () => {
  it('are renewed with one script per slot', async () => {
    const calls = async () => {
      const stats = await Promise.all(client.nodes('master').map(node => node.info('commandstats')));
      return stats.map(text => Number(/cmdstat_evalsha:calls=(\d+)/.exec(text)?.[1] ?? 0)).reduce((a, b) => a + b);
    };
    await provider.renewLeases(leases, ttlMs);
    const before = await calls();
    expect(await renewed()).toBe(leases.length);
    expect((await calls()) - before).toBe(64);
  });

  it('go along when their slots move to another node', async () => {
    const { p1, p2 } = { p1: 'thread:{p1}:r:1', p2: 'thread:{p2}:r:2' };
    const slots = await Promise.all([p1, p2].map(key => client.cluster('KEYSLOT', keys.lease(key).lease)));
    for (const slot of slots) {
      const owners = await Promise.all(cluster.nodes.map(async node => (await cluster.slotsOf(node)).includes(slot)));
      const from = cluster.nodes[owners.indexOf(true)]!;
      const to = cluster.nodes.find(node => node !== from)!;
      await cluster.moveSlots(from, to, [slot]);
    }
    expect(await renewed()).toBe(leases.length);
    expect(await provider.acquireLease(p1, 'b', ttlMs)).toEqual({ acquired: false, owner: 'a' });
    expect(await provider.transferLease(p2, 'a', 'b', ttlMs)).toBe(true);
    expect(await provider.transferLease(p2, 'b', 'a', ttlMs)).toBe(true);
  });

  it('cannot be confirmed by replicas that are not there', async () => {
    const confirming = new RedisLeaseProvider(client, keys, { replicaAcks: 1, replicaAckTimeoutMs: 50 });
    expect(await confirming.acquireLease('new', 'a', ttlMs)).toEqual({ acquired: false });
    expect(await provider.getLeaseOwner('new')).toBeUndefined();
  });

  it('are judged by the worst of the nodes at start', async () => {
    await client.nodes('master')[1]?.config('SET', 'maxmemory-policy', 'allkeys-lru');
    const findings = await checkStore(client);
    expect(findings.find(({ subject }) => subject === 'eviction')).toMatchObject({ verdict: 'bad' });
    expect(findings.find(({ subject }) => subject === 'version')).toMatchObject({ verdict: 'ok' });
  });

  it('on the nodes that live go on when one dies, and those of the dead one are errors, not losses (L3)', async () => {
    const dying = cluster.nodes[2]!;
    const dead = new Set(await cluster.slotsOf(dying));
    const slots = await Promise.all(threads.map(key => client.cluster('KEYSLOT', keys.lease(key).lease)));
    await dying.kill('SIGKILL');
    let answers: (boolean | Error)[] = [];
    await until('the others are renewed again', async () => {
      answers = await provider.renewLeases(leases, ttlMs);
      return answers.some(answer => answer === true);
    });
    const expected = slots.map(slot => (dead.has(slot) ? 'error' : 'renewed'));
    expect(expected).toContain('error');
    await until('each lease on a living node is renewed', async () => {
      answers = await provider.renewLeases(leases, ttlMs);
      const kinds = answers.map(answer => (answer instanceof Error ? 'error' : answer ? 'renewed' : 'lost'));
      expect(kinds).not.toContain('lost');
      return kinds.every((kind, at) => kind === expected[at]);
    });
  });
});
