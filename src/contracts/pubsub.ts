/**
 * Events between processes. Structurally the `PubSub` of `@mastra/core/events` (checked against 1.71), so that
 * our backends go where that type is asked for and its backends go where this one is.
 */

export interface Event {
  type: string;
  /** UUID, given by the backend. */
  id: string;
  // The peer types this as `any`; `unknown` would make its callbacks unassignable to ours.
  // oxlint-disable-next-line typescript/no-explicit-any
  data: any;
  runId: string;
  createdAt: Date;
  index?: number;
  /** 1 on first delivery, one more for each redelivery. */
  deliveryAttempt?: number;
}

export type NewEvent = Omit<Event, 'id' | 'createdAt'>;

/**
 * Called once per delivered event and not awaited before the next one. Throwing or rejecting is a nack.
 * `extend` (ours, absent on other backends) keeps an event that takes long from being reclaimed by a sibling.
 */
export type EventCallback = (
  event: Event,
  ack?: () => Promise<void>,
  nack?: () => Promise<void>,
  extend?: () => Promise<void>,
) => void | Promise<void>;

export interface SubscribeBatchOptions {
  /** Flush when this many events are held. */
  maxSize?: number;
  /** Flush when the oldest event has been held this long. */
  maxWaitMs?: number;
  /** Least time between two flushes; the other rules wait for it. */
  minIntervalMs?: number;
  /** An event for which this is true flushes at once (subject to `minIntervalMs`) and is never dropped on overflow. */
  isImmediate?: (event: Event) => boolean;
  /** Returns the events to deliver: a subset of its input by reference, in order. The others count as acked. */
  coalesce?: (events: Event[]) => Event[];
  /** Default 256. */
  maxBufferSize?: number;
  /** Default `coalesce-or-drop-oldest`. */
  overflow?: 'drop-oldest' | 'drop-newest' | 'coalesce-or-drop-oldest';
}

export interface SubscribeOptions {
  /** Members of a group share the events; without one every subscriber gets every event. */
  group?: string;
  /** Where a group that is new begins. Default `earliest`. */
  startFrom?: 'earliest' | 'latest';
  batch?: SubscribeBatchOptions;
}

export interface PublishOptions {
  /** The event stays in this process and is not serialized. */
  localOnly?: boolean;
}

export type PubSubDeliveryMode = 'pull' | 'push';

export interface PubSub {
  readonly supportedModes: readonly PubSubDeliveryMode[];
  readonly supportsNativeBatching: boolean;
  readonly supportsOffsets: boolean;
  publish(topic: string, event: NewEvent, options?: PublishOptions): Promise<void>;
  /** The same `(topic, callback)` twice is one subscription. */
  subscribe(topic: string, callback: EventCallback, options?: SubscribeOptions): Promise<void>;
  unsubscribe(topic: string, callback: EventCallback): Promise<void>;
  /** Resolves when what was published or delivered before the call is through. */
  flush(): Promise<void>;
  /** Deletes what the backend keeps of a topic. Never throws. */
  clearTopic(topic: string): Promise<void>;
  getHistory(topic: string, offset?: number): Promise<Event[]>;
  subscribeWithReplay(topic: string, callback: EventCallback): Promise<void>;
  subscribeFromOffset(topic: string, offset: number, callback: EventCallback): Promise<void>;
}

/** What ours have beyond the peer's contract. */
export interface ClosablePubSub extends PubSub {
  /** Removes events older than the newest `keep`. Answers how many went. */
  trimTopic(topic: string, keep: number): Promise<number>;
  close(): Promise<void>;
}
