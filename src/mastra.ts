/**
 * The PubSub classes as `new Mastra({ pubsub })` wants them. The peer's `PubSub` is an abstract class with a protected
 * member, which TypeScript accepts from its own subclasses only; at run time it asks for methods and nothing else. So
 * these are the same classes under another type, and nothing of the peer is imported when this runs.
 */

import type {
  Event,
  EventCallback,
  LeaseProvider as MastraLeaseProvider,
  PubSub as MastraPubSub,
  SubscribeOptions,
} from '@mastra/core/events';

import { EventEmitterPubSub as OurEventEmitterPubSub } from './memory/event-emitter-pubsub.ts';
import type { EventEmitterPubSubOptions } from './memory/event-emitter-pubsub.ts';
import { RedisStreamsPubSub as OurRedisStreamsPubSub } from './redis/streams-pubsub.ts';
import type { RedisStreamsPubSubOptions } from './redis/streams-pubsub.ts';

export type { EventEmitterPubSubOptions } from './memory/event-emitter-pubsub.ts';
export type { RedisStreamsPubSubOptions } from './redis/streams-pubsub.ts';

/** What both have beyond the peer's `PubSub`. Its abstract methods are said again, so that our classes can be extended. */
export interface SignalsPubSub extends MastraPubSub, MastraLeaseProvider {
  publish(topic: string, event: Omit<Event, 'id' | 'createdAt'>, options?: { localOnly?: boolean }): Promise<void>;
  subscribe(topic: string, callback: EventCallback, options?: SubscribeOptions): Promise<void>;
  unsubscribe(topic: string, callback: EventCallback): Promise<void>;
  flush(): Promise<void>;
  close(): Promise<void>;
}

export const RedisStreamsPubSub = OurRedisStreamsPubSub as unknown as new (
  options?: RedisStreamsPubSubOptions,
) => SignalsPubSub;
export type RedisStreamsPubSub = SignalsPubSub;

export const EventEmitterPubSub = OurEventEmitterPubSub as unknown as new (
  options?: EventEmitterPubSubOptions,
) => SignalsPubSub;
export type EventEmitterPubSub = SignalsPubSub;
