import { randomUUID } from 'node:crypto';

import { EventEmitterPubSub as PeerPubSub } from '@mastra/core/events';
import { afterAll, beforeAll, describe } from 'vitest';

import type { PubSub } from '../../src/contracts/pubsub.ts';
import { systemClock } from '../../src/core/clock.ts';
import { EventEmitterPubSub } from '../../src/memory/event-emitter-pubsub.ts';
import { MemoryLeaseProvider } from '../../src/memory/memory-leases.ts';
import { RedisBackend } from '../../src/redis/backend.ts';
import type { RedisBackendOptions } from '../../src/redis/backend.ts';
import { PubSubMailbox } from '../../src/threads/pubsub-mailbox.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import type { RedisCluster } from '../support/redis-cluster.ts';
import { startRedisSentinels } from '../support/redis-sentinel.ts';
import type { RedisSentinels } from '../support/redis-sentinel.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import type { MakeBackend } from './mailbox.harness.ts';
import { describeMailbox } from './mailbox.suite.ts';
import { SmallPubSub } from './mailbox.small-pubsub.ts';

/** Several instances of one process, each with a mailbox of its own, over one PubSub. */
function onPubSub(makePubSub: () => PubSub): MakeBackend {
  return async (instanceIds, limits) => {
    const pubsub = makePubSub();
    const leases = new MemoryLeaseProvider(systemClock);
    const instances = instanceIds.map(id => {
      const mailbox = new PubSubMailbox({ pubsub, leases, instanceId: id, limits });
      return { id, mailbox, operations: mailbox.operations };
    });
    return {
      instances,
      leases,
      close: async () => {
        for (const { mailbox } of instances) await mailbox.close();
      },
    };
  };
}

describeMailbox('the mailbox on a custom backend', onPubSub(() => new SmallPubSub()));
describeMailbox('the mailbox on the embedded backend', onPubSub(() => new EventEmitterPubSub()));
describeMailbox("the mailbox on the peer's in-process backend", onPubSub(() => new PeerPubSub()));

/** Several instances, each with connections of its own. */
function onRedis(source: () => RedisBackendOptions['source']): MakeBackend {
  return async (instanceIds, limits) => {
    const keyPrefix = `contract-${randomUUID()}`;
    const backends = instanceIds.map(() => new RedisBackend({ source: source(), keyPrefix, limits }));
    await Promise.all(backends.map(backend => backend.connect()));
    const [first] = backends;
    if (!first) throw new Error('no instance');
    return {
      instances: backends.map(({ mailbox, operations }, at) => ({ id: instanceIds[at] ?? '', mailbox, operations })),
      leases: first.leases,
      close: async () => {
        await Promise.all(backends.map(backend => backend.close(1000)));
      },
    };
  };
}

describe('with a Redis', () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  describeMailbox('the mailbox on Redis', onRedis(() => ({ url: server.url })));
});

describe('with Sentinels', () => {
  let sentinels: RedisSentinels;

  beforeAll(async () => {
    sentinels = await startRedisSentinels(1);
  });
  afterAll(() => sentinels.stop());

  const source = () => ({ redisOptions: { sentinels: sentinels.sentinels, name: sentinels.name } });
  describeMailbox('the mailbox on Redis behind Sentinels', onRedis(source));
});

describe('with a Cluster', () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await startRedisCluster(3);
  });
  afterAll(() => cluster.stop());

  describeMailbox('the mailbox on a Redis Cluster', onRedis(() => ({ cluster: { nodes: cluster.seeds } })));
});
