/** What an instance keeps its threads in: Redis where an address is set, a PubSub of the user's own, else this process. */

import { leaseProviderOf, NoopLeaseProvider } from './contracts/lease-provider.ts';
import type { LeaseProvider } from './contracts/lease-provider.ts';
import type { MailboxOperations } from './contracts/mailbox-operations.ts';
import type { ClosablePubSub, PubSub } from './contracts/pubsub.ts';
import type { ThreadMailbox } from './contracts/thread-mailbox.ts';
import { systemClock } from './core/clock.ts';
import type { Logger } from './core/logger.ts';
import { withLimit } from './core/waits.ts';
import { EventEmitterPubSub } from './memory/event-emitter-pubsub.ts';
import { MemoryLeaseProvider } from './memory/memory-leases.ts';
import { RedisBackend } from './redis/backend.ts';
import type { ProcessSettings } from './settings/process-settings.ts';
import { PubSubMailbox } from './threads/pubsub-mailbox.ts';

export interface Backend {
  readonly kind: 'redis' | 'custom' | 'embedded';
  readonly leases: LeaseProvider;
  readonly mailbox: ThreadMailbox;
  readonly operations: MailboxOperations;
  /** Whether a step tried now has a chance. */
  readonly reachable: boolean;
  /** Resolves when it can be used; tries for as long as that takes. */
  connect(): Promise<void>;
  /** Settles within `limitMs`, give or take. */
  close(limitMs: number): Promise<void>;
}

/** `custom`: the user's own PubSub. */
export function createBackend(settings: ProcessSettings, instanceId: string, logger: Logger, custom?: PubSub): Backend {
  if (settings.redis) return redisBackend(settings, settings.redis, logger);
  if (custom) return customBackend(settings, instanceId, logger, custom);
  const pubsub = new EventEmitterPubSub();
  return onPubSub('embedded', settings, instanceId, logger, pubsub, new MemoryLeaseProvider());
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

/** Leases of the backend's own tell instances apart. Without any there must be one instance only, which its memory serves. */
function customBackend(settings: ProcessSettings, instanceId: string, logger: Logger, pubsub: PubSub): Backend {
  const leases = leaseProviderOf(pubsub);
  if (leases !== NoopLeaseProvider) return onPubSub('custom', settings, instanceId, logger, pubsub, leases);
  logger.warn('this backend has no leases: a second instance on it would run the same threads; run one only');
  return onPubSub('custom', settings, instanceId, logger, pubsub, new MemoryLeaseProvider());
}

function onPubSub(
  kind: 'custom' | 'embedded', settings: ProcessSettings, instanceId: string, logger: Logger, pubsub: PubSub, leases: LeaseProvider,
): Backend {
  const mailbox = new PubSubMailbox({ pubsub, leases, instanceId, limits: settings.mailbox, logger });
  return {
    kind,
    leases,
    mailbox,
    operations: mailbox.operations,
    reachable: true,
    connect: () => Promise.resolve(),
    async close(limitMs) {
      const closed = mailbox.close().then(() => (pubsub as Partial<ClosablePubSub>).close?.());
      await withLimit(systemClock, limitMs, 'the end of the backend', closed);
    },
  };
}
