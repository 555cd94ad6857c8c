import { EventEmitterPubSub as PeerEventEmitterPubSub } from '@mastra/core/events';
import { afterAll, beforeAll, describe } from 'vitest';

import { EventEmitterPubSub } from '../../src/memory/event-emitter-pubsub.ts';
import { RedisStreamsPubSub } from '../../src/redis/streams-pubsub.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import type { RedisCluster } from '../support/redis-cluster.ts';
import { startRedisSentinels } from '../support/redis-sentinel.ts';
import type { RedisSentinels } from '../support/redis-sentinel.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { pubSubContract } from './pubsub.suite.ts';
import type { Promises } from './pubsub.suite.ts';

const durable: Promises = { keeps: true, failureIsNack: true, idempotent: true, closes: true, maxDeliveryAttempts: 5 };

pubSubContract('ours in memory', async () => ({ pubsub: new EventEmitterPubSub() }), { ...durable, keeps: false });

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
pubSubContract(
  "the peer's in memory",
  // Its logger is asked for errors only; without one it writes them to the console.
  async () => ({ pubsub: new PeerEventEmitterPubSub(undefined, { logger: quiet as never }) }),
  { keeps: false, failureIsNack: false, idempotent: false, closes: false, maxDeliveryAttempts: Infinity },
);

describe('with a Redis', () => {
  let server: RedisServer;
  let prefixes = 0;

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  const open = (options: object) => async () => {
    const all = { url: server.url, keyPrefix: `contract-${prefixes++}`, ...options };
    return { pubsub: new RedisStreamsPubSub(all), peer: new RedisStreamsPubSub(all) };
  };
  pubSubContract('ours on Redis', open({}), durable);
  pubSubContract('ours on Redis, with an idle TTL', open({ streamIdleTtlMs: 600_000 }), durable);
});

describe('with a Redis that refuses CLIENT TRACKING', () => {
  let server: RedisServer;
  let prefixes = 0;

  beforeAll(async () => {
    server = await startRedis({ config: ['user default on nopass ~* &* +@all -client|tracking'] });
  });
  afterAll(() => server.stop());

  const open = async () => {
    const all = { url: server.url, keyPrefix: `contract-${prefixes++}`, blockMs: 50 };
    return { pubsub: new RedisStreamsPubSub(all), peer: new RedisStreamsPubSub(all) };
  };
  pubSubContract('ours on Redis without tracking', open, durable);
});

describe('with a Redis Cluster', () => {
  let cluster: RedisCluster;
  let prefixes = 0;

  beforeAll(async () => {
    cluster = await startRedisCluster();
  });
  afterAll(() => cluster.stop());

  const open = async () => {
    const all = { cluster: { nodes: cluster.seeds }, keyPrefix: `contract-${prefixes++}` };
    return { pubsub: new RedisStreamsPubSub(all), peer: new RedisStreamsPubSub(all) };
  };
  pubSubContract('ours on Redis Cluster', open, durable);
});

describe('with Redis behind Sentinel', () => {
  let redis: RedisSentinels;
  let prefixes = 0;

  beforeAll(async () => {
    redis = await startRedisSentinels();
  });
  afterAll(() => redis.stop());

  const open = async () => {
    const all = { redisOptions: { sentinels: redis.sentinels, name: redis.name }, keyPrefix: `contract-${prefixes++}` };
    return { pubsub: new RedisStreamsPubSub(all), peer: new RedisStreamsPubSub(all) };
  };
  pubSubContract('ours behind Sentinel', open, durable);
});
