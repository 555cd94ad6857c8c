/** Our Redis backend, which also says when the peer has handled an event. Nothing of what it does is changed. */

import type { Event, EventCallback, SubscribeOptions } from '@mastra/core/events';

import { RedisStreamsPubSub } from '../../../src/mastra.ts';
import type { RedisStreamsPubSubOptions } from '../../../src/mastra.ts';

export class ObservedPubSub extends RedisStreamsPubSub {
  readonly #onHandled: (event: Event) => void;
  readonly #observed = new WeakMap<EventCallback, EventCallback>();
  /** Leases handed from one run to the next. */
  transfers = 0;

  constructor(options: RedisStreamsPubSubOptions, onHandled: (event: Event) => void) {
    super(options);
    this.#onHandled = onHandled;
  }

  override async subscribe(topic: string, callback: EventCallback, options?: SubscribeOptions): Promise<void> {
    let observed = this.#observed.get(callback);
    if (!observed) {
      observed = async (event, ack, nack) => {
        await callback(event, ack, nack);
        this.#onHandled(event);
      };
      this.#observed.set(callback, observed);
    }
    await super.subscribe(topic, observed, options);
  }

  override async unsubscribe(topic: string, callback: EventCallback): Promise<void> {
    await super.unsubscribe(topic, this.#observed.get(callback) ?? callback);
  }

  override async transferLease(key: string, fromOwner: string, toOwner: string, ttlMs: number): Promise<boolean> {
    const moved = await super.transferLease(key, fromOwner, toOwner, ttlMs);
    if (moved) this.transfers += 1;
    return moved;
  }
}
