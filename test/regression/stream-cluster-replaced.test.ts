/** Slots that moved, and nodes that were replaced under new addresses: subscribers read on at nodes that had nothing. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { startRedisCluster } from '../support/redis-cluster.ts';
import type { RedisCluster } from '../support/redis-cluster.ts';
import { newEvent, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import type { Recorder } from '../support/streams-fixture.ts';
import { until } from '../support/until.ts';

const topics = Array.from({ length: 30 }, (_, at) => `t${at}`);

describe('a Cluster that changes', () => {
  let cluster: RedisCluster;
  const fixture = new StreamsFixture();

  beforeEach(async () => {
    cluster = await startRedisCluster(2);
  });
  afterEach(async () => {
    await fixture.closeAll();
    await cluster.stop();
  });

  const subscribeAll = async (options = {}) => {
    const pubsub = fixture.open({ cluster: { nodes: cluster.seeds }, ...options });
    const recorders = new Map<string, [Recorder, Recorder]>();
    for (const topic of topics) {
      const pair: [Recorder, Recorder] = [recorder(), recorder()];
      recorders.set(topic, pair);
      await pubsub.subscribe(topic, pair[0].callback, { group: 'workers' });
      await pubsub.subscribe(topic, pair[1].callback);
    }
    const all = (n: number) => [...recorders.values()].flat().every(({ numbers }) => numbers().includes(n));
    return { pubsub, recorders, all };
  };
  const publishAll = (pubsub: { publish: (topic: string, event: ReturnType<typeof newEvent>) => Promise<void> }, n: number) =>
    Promise.all(topics.map(topic => pubsub.publish(topic, newEvent(n))));

  it('takes many publishes at once on a cold start', async () => {
    const pubsub = fixture.open({ cluster: { nodes: cluster.seeds } });
    await Promise.all(Array.from({ length: 500 }, (_, n) => pubsub.publish(`cold${n % 50}`, newEvent(n))));
    const kept = await Promise.all(Array.from({ length: 50 }, (_, at) => pubsub.getHistory(`cold${at}`)));
    expect(kept.flat()).toHaveLength(500);
  });

  it('delivers every event once to each subscriber while slots move to another node', async () => {
    const { pubsub, recorders, all } = await subscribeAll();
    await publishAll(pubsub, 0);
    await until('all have the first', () => all(0));
    const [from] = cluster.nodes;
    const to = await cluster.addNode();
    if (!from) throw new Error('no node');
    const moving = cluster.moveSlots(from, to, (await cluster.slotsOf(from)).slice(0, 4000));
    let n = 0;
    const progress = { moved: false };
    void moving.then(() => void (progress.moved = true));
    while (!progress.moved) await publishAll(pubsub, ++n);
    await moving;
    await publishAll(pubsub, ++n);
    const expected = Array.from({ length: n + 1 }, (_, one) => one);
    await until('all have all', () => expected.every(all));
    for (const { numbers } of [...recorders.values()].flat()) expect(new Set(numbers()).size).toBe(expected.length);
  });

  it('goes on when every node has been replaced by one under a new address', async () => {
    const { pubsub, all } = await subscribeAll();
    await publishAll(pubsub, 0);
    await until('all have the first', () => all(0));
    for (const old of cluster.nodes) {
      const replacement = await cluster.addNode();
      await cluster.moveSlots(old, replacement, await cluster.slotsOf(old));
      await cluster.removeNode(old);
    }
    await until('what is published now arrives everywhere', async () => {
      await publishAll(pubsub, 1).catch(() => {});
      return all(1);
    });
  });
});
