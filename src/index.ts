/**
 * The library's face. `signals-runtime/mastra` has the same backends typed for `new Mastra({ pubsub })`.
 *
 * - events:   `RedisStreamsPubSub`, `EventEmitterPubSub`
 * - leases:   `RedisLeaseProvider`, `MemoryLeaseProvider`, `LeaseKeeper`, `NoopLeaseProvider`; `transferByRelease` for providers
 *   whose store can't hand a lease over in one step; `checkStore` looks whether a server is set up for leases
 * - contracts and errors, to write backends and agents against
 */

export type { Agent, AgentDefinition, AgentLookup, AgentRun, Arrivals, Chunk } from './contracts/agent.ts';
export { isBatchLeaseProvider, isLeaseProvider, leaseProviderOf, NoopLeaseProvider } from './contracts/lease-provider.ts';
export type { BatchLeaseProvider, HeldKey, LeaseAcquisition, LeaseProvider } from './contracts/lease-provider.ts';
export type {
  ClosablePubSub, Event, EventCallback, NewEvent, PublishOptions, PubSub, PubSubDeliveryMode, SubscribeBatchOptions,
  SubscribeOptions,
} from './contracts/pubsub.ts';
export type { ActiveBehavior, Branch, Envelope, IdleBehavior, Signal, TraceCarrier, Turn } from './contracts/signal.ts';
export { ownerOf, parseOwner, threadLeaseKey } from './contracts/thread.ts';
export type { ThreadRef } from './contracts/thread.ts';
export type { Grant, LeaseClaim } from './contracts/thread-mailbox.ts';
export type { Clock, Instant, Timer } from './core/clock.ts';
export { systemClock } from './core/clock.ts';
export { isSignalsError, SignalsError } from './core/errors.ts';
export type { ErrorCode } from './core/errors.ts';
export type { LogFields, Logger } from './core/logger.ts';
export { acquire } from './leases/acquire.ts';
export type { HeldLease } from './leases/hold.ts';
export { LeaseKeeper } from './leases/lease-keeper.ts';
export type { LeaseKeeperOptions } from './leases/lease-keeper.ts';
export type { LeaseSettings } from './leases/settings.ts';
export { transferByRelease } from './leases/transfer-by-release.ts';
export type { EventEmitterPubSubOptions } from './memory/event-emitter-pubsub.ts';
export { EventEmitterPubSub } from './memory/event-emitter-pubsub.ts';
export { MemoryLeaseProvider } from './memory/memory-leases.ts';
export { RedisConnector } from './redis/connection.ts';
export type { ConnectionRole, RedisClient, RedisSource } from './redis/connection.ts';
export { RedisKeys } from './redis/keys.ts';
export { RedisLeaseProvider } from './redis/leases.ts';
export type { RedisLeaseOptions } from './redis/leases.ts';
export { checkStore } from './redis/store-check.ts';
export type { StoreCheckOptions, StoreFinding, StoreVerdict } from './redis/store-check.ts';
export { RedisStreamsPubSub } from './redis/streams-pubsub.ts';
export type { RedisStreamsPubSubOptions } from './redis/streams-pubsub.ts';
