/**
 * Events within one process, for the embedded backend and for tests. Nothing is kept: who subscribes later hears what
 * is published later, and what is in the air when the process ends is gone. Leases likewise.
 */

import { randomUUID } from 'node:crypto';

import type { BatchLeaseProvider, HeldKey, LeaseAcquisition } from '../contracts/lease-provider.ts';
import type {
  ClosablePubSub,
  Event,
  EventCallback,
  NewEvent,
  PublishOptions,
  PubSubDeliveryMode,
  SubscribeOptions,
} from '../contracts/pubsub.ts';
import { Batcher, checkBatchPolicy } from '../core/batching.ts';
import { systemClock } from '../core/clock.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { errorMessage, invalidOption, SignalsError } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import type { Logger } from '../core/logger.ts';
import { MemoryLeaseProvider } from './memory-leases.ts';

export interface EventEmitterPubSubOptions {
  /** Deliveries of one event to one subscriber or group before it is dropped; `Infinity` = no cap. Default 5. */
  maxDeliveryAttempts?: number;
  logger?: Logger;
  clock?: Clock;
}

interface Subscriber {
  readonly callback: EventCallback;
  readonly group: string | undefined;
  readonly batcher: Batcher<Event> | undefined;
}

interface Topic {
  subscribers: Subscriber[];
  /** Of each group, who had the last event. */
  readonly turns: Map<string, number>;
  readonly waiting: Event[];
  delivering: boolean;
}

export class EventEmitterPubSub implements ClosablePubSub, BatchLeaseProvider {
  readonly supportedModes: readonly PubSubDeliveryMode[] = ['pull', 'push'];
  readonly supportsNativeBatching = true;
  readonly supportsOffsets = false;

  readonly #maxDeliveryAttempts: number;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #leases: MemoryLeaseProvider;
  readonly #topics = new Map<string, Topic>();
  /** Redeliveries that are due in the next turn of the event loop. */
  readonly #redeliveries = new Set<Timer>();
  #idle: (() => void)[] = [];
  #closed = false;

  /** Throws `SIG_OPTION_INVALID`. */
  constructor(options: EventEmitterPubSubOptions = {}) {
    const attempts = options.maxDeliveryAttempts ?? 5;
    if (attempts !== Infinity && !(Number.isInteger(attempts) && attempts >= 1)) {
      throw invalidOption('maxDeliveryAttempts', attempts, 'a whole number from 1, or Infinity');
    }
    this.#maxDeliveryAttempts = attempts;
    this.#logger = options.logger ?? silentLogger;
    this.#clock = options.clock ?? systemClock;
    this.#leases = new MemoryLeaseProvider(this.#clock);
  }

  async publish(name: string, event: NewEvent, _options: PublishOptions = {}): Promise<void> {
    this.#mustBeOpen();
    const topic = this.#topics.get(name);
    if (!topic) return;
    topic.waiting.push({ ...event, id: randomUUID(), createdAt: new Date(), deliveryAttempt: event.deliveryAttempt ?? 1 });
    this.#deliverWaiting(name, topic);
  }

  async subscribe(name: string, callback: EventCallback, options: SubscribeOptions = {}): Promise<void> {
    this.#mustBeOpen();
    const { batch, group } = options;
    if (group === '') throw invalidOption('group', group, 'a string that is not empty');
    if (batch) checkBatchPolicy(batch);
    const topic = this.#topics.get(name) ?? { subscribers: [], turns: new Map(), waiting: [], delivering: false };
    this.#topics.set(name, topic);
    if (topic.subscribers.some(subscriber => subscriber.callback === callback)) return;
    const report = (problem: string, error?: unknown) =>
      this.#logger.warn(problem, error === undefined ? {} : { error: errorMessage(error) });
    const batcher = batch && new Batcher<Event>(batch, this.#clock, report);
    topic.subscribers = [...topic.subscribers, { callback, group, batcher }];
  }

  async unsubscribe(name: string, callback: EventCallback): Promise<void> {
    const topic = this.#topics.get(name);
    const leaving = topic?.subscribers.find(subscriber => subscriber.callback === callback);
    if (!topic || !leaving) return;
    topic.subscribers = topic.subscribers.filter(subscriber => subscriber !== leaving);
    leaving.batcher?.dispose();
    if (topic.subscribers.length === 0 && !topic.delivering) this.#topics.delete(name);
  }

  async flush(): Promise<void> {
    for (const { subscribers } of this.#topics.values()) for (const { batcher } of subscribers) batcher?.flush();
    if (this.#redeliveries.size > 0) await new Promise<void>(resolve => void this.#idle.push(resolve));
  }

  async clearTopic(_topic: string): Promise<void> {
    // Nothing is kept.
  }

  async getHistory(_topic: string, _offset?: number): Promise<Event[]> {
    return [];
  }

  async subscribeWithReplay(topic: string, callback: EventCallback): Promise<void> {
    await this.subscribe(topic, callback);
  }

  async subscribeFromOffset(topic: string, _offset: number, callback: EventCallback): Promise<void> {
    await this.subscribe(topic, callback);
  }

  async trimTopic(_topic: string, _keep: number): Promise<number> {
    return 0;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const redelivery of this.#redeliveries) redelivery.cancel();
    this.#redeliveries.clear();
    for (const { subscribers } of this.#topics.values()) for (const { batcher } of subscribers) batcher?.dispose();
    this.#topics.clear();
    this.#tellIdle();
  }

  acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    return this.#leases.acquireLease(key, owner, ttlMs);
  }

  getLeaseOwner(key: string): Promise<string | undefined> {
    return this.#leases.getLeaseOwner(key);
  }

  releaseLease(key: string, owner: string): Promise<void> {
    return this.#leases.releaseLease(key, owner);
  }

  renewLease(key: string, owner: string, ttlMs: number): Promise<boolean> {
    return this.#leases.renewLease(key, owner, ttlMs);
  }

  renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<boolean[]> {
    return this.#leases.renewLeases(leases, ttlMs);
  }

  transferLease(key: string, fromOwner: string, toOwner: string, ttlMs: number): Promise<boolean> {
    return this.#leases.transferLease(key, fromOwner, toOwner, ttlMs);
  }

  /** An event that a handler publishes comes after the one that it handles, for every subscriber. */
  #deliverWaiting(name: string, topic: Topic): void {
    if (topic.delivering) return;
    topic.delivering = true;
    for (let event = topic.waiting.shift(); event; event = topic.waiting.shift()) {
      for (const subscriber of receivers(topic)) this.#deliver(name, topic, subscriber, event);
    }
    topic.delivering = false;
    if (topic.subscribers.length === 0 && this.#topics.get(name) === topic) this.#topics.delete(name);
  }

  #deliver(name: string, topic: Topic, subscriber: Subscriber, original: Event): void {
    // Each gets an object of its own, so that what one handler changes is not what another sees.
    const event = { ...original };
    let settled = false;
    const ack = () => {
      settled = true;
      return Promise.resolve();
    };
    const nack = () => {
      if (!settled) this.#redeliver(name, topic, subscriber, original);
      settled = true;
      return Promise.resolve();
    };
    const deliver = () => this.#invoke(name, subscriber.callback, event, ack, nack);
    if (subscriber.batcher) subscriber.batcher.push({ event, deliver, drop: () => void ack(), abandon: () => void nack() });
    else deliver();
  }

  #invoke(name: string, callback: EventCallback, event: Event, ack: () => Promise<void>, nack: () => Promise<void>): void {
    const failed = (error: unknown) => {
      this.#logger.debug('a handler failed; its event is nacked', { topic: name, error: errorMessage(error) });
      void nack();
    };
    // There is no idle clock in one process: what a handler holds is nobody else's.
    const extend = () => Promise.resolve();
    try {
      Promise.resolve(callback(event, ack, nack, extend)).catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  #redeliver(name: string, topic: Topic, subscriber: Subscriber, event: Event): void {
    const attempt = event.deliveryAttempt ?? 1;
    if (attempt >= this.#maxDeliveryAttempts) {
      this.#logger.warn('an event was dropped after its last delivery attempt', {
        topic: name,
        eventId: event.id,
        eventType: event.type,
        attempt,
      });
      return;
    }
    if (this.#closed) return;
    const timer = this.#clock.after(0, () => {
      this.#redeliveries.delete(timer);
      const next = subscriber.group === undefined ? stillThere(topic, subscriber) : nextOf(topic, subscriber.group);
      if (next) this.#deliver(name, topic, next, { ...event, deliveryAttempt: attempt + 1 });
      this.#tellIdle();
    });
    this.#redeliveries.add(timer);
  }

  #tellIdle(): void {
    if (this.#redeliveries.size > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  #mustBeOpen(): void {
    if (this.#closed) throw new SignalsError('SIG_STORE_UNAVAILABLE', 'this PubSub is closed');
  }
}

/** Every fan-out subscriber, and of each group the member whose turn it is. */
function receivers(topic: Topic): Subscriber[] {
  const groups = new Set(topic.subscribers.flatMap(({ group }) => group ?? []));
  const members = [...groups].map(group => nextOf(topic, group)).filter(member => member !== undefined);
  return [...topic.subscribers.filter(({ group }) => group === undefined), ...members];
}

function nextOf(topic: Topic, group: string): Subscriber | undefined {
  const members = topic.subscribers.filter(subscriber => subscriber.group === group);
  const turn = topic.turns.get(group) ?? 0;
  topic.turns.set(group, turn + 1);
  return members[turn % members.length];
}

function stillThere(topic: Topic, subscriber: Subscriber): Subscriber | undefined {
  return topic.subscribers.includes(subscriber) ? subscriber : undefined;
}
