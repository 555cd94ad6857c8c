/** What an instance keeps its threads in: Redis where an address is set, else this process. */

import type { LeaseProvider } from './contracts/lease-provider.ts';
import type { MailboxOperations } from './contracts/mailbox-operations.ts';
import type { ThreadMailbox } from './contracts/thread-mailbox.ts';
import type { Logger } from './core/logger.ts';
import { EventEmitterPubSub } from './memory/event-emitter-pubsub.ts';
import { MemoryLeaseProvider } from './memory/memory-leases.ts';
import { RedisBackend } from './redis/backend.ts';
import type { ProcessSettings } from './settings/process-settings.ts';
import { PubSubMailbox } from './threads/pubsub-mailbox.ts';

export interface Backend {
  readonly kind: 'redis' | 'embedded';
  readonly leases: LeaseProvider;
  readonly mailbox: ThreadMailbox;
  readonly operations: MailboxOperations;
  /** Whether a step tried now has a chance. */
  readonly reachable: boolean;
  /** Resolves when it can be used; tries for as long as that takes. */
  connect(): Promise<void>;
  close(limitMs: number): Promise<void>;
}

export function createBackend(settings: ProcessSettings, instanceId: string, logger: Logger): Backend {
  return settings.redis ? redisBackend(settings, settings.redis, logger) : embeddedBackend(settings, instanceId, logger);
}

function redisBackend(settings: ProcessSettings, source: NonNullable<ProcessSettings['redis']>, logger: Logger): Backend {
  const redis = new RedisBackend({
    source,
    keyPrefix: settings.redisKeyPrefix,
    limits: settings.mailbox,
    replicaAcks: settings.redisReplicaAcks,
    logger,
  });
  return {
    kind: 'redis',
    leases: redis.leases,
    mailbox: redis.mailbox,
    operations: redis.operations,
    get reachable() {
      return redis.reachable;
    },
    connect: () => redis.connect(),
    close: limitMs => redis.close(limitMs),
  };
}

function embeddedBackend(settings: ProcessSettings, instanceId: string, logger: Logger): Backend {
  const pubsub = new EventEmitterPubSub();
  const leases = new MemoryLeaseProvider();
  const mailbox = new PubSubMailbox({ pubsub, leases, instanceId, limits: settings.mailbox, logger });
  return {
    kind: 'embedded',
    leases,
    mailbox,
    operations: mailbox.operations,
    reachable: true,
    connect: () => Promise.resolve(),
    async close() {
      await mailbox.close();
      await pubsub.close();
    },
  };
}
