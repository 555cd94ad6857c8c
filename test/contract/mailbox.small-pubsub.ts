/** The smallest PubSub that keeps the contract: what a user's own backend may look like. No leases, no mailbox. */

import { randomUUID } from 'node:crypto';

import type { Event, EventCallback, NewEvent, PubSub } from '../../src/contracts/pubsub.ts';

export class SmallPubSub implements PubSub {
  readonly supportedModes = ['push'] as const;
  readonly supportsNativeBatching = false;
  readonly supportsOffsets = false;
  readonly #subscribers = new Map<string, Set<EventCallback>>();
  readonly #under = new Set<Promise<void>>();

  publish(topic: string, event: NewEvent): Promise<void> {
    // As text, as over any wire: nothing is shared between sender and receiver.
    const wire = JSON.stringify({ ...event, id: randomUUID(), createdAt: new Date(), deliveryAttempt: 1 });
    for (const callback of this.#subscribers.get(topic) ?? []) this.#deliver(callback, wire);
    return Promise.resolve();
  }

  subscribe(topic: string, callback: EventCallback): Promise<void> {
    const subscribers = this.#subscribers.get(topic) ?? new Set();
    this.#subscribers.set(topic, subscribers.add(callback));
    return Promise.resolve();
  }

  unsubscribe(topic: string, callback: EventCallback): Promise<void> {
    const subscribers = this.#subscribers.get(topic);
    subscribers?.delete(callback);
    if (subscribers?.size === 0) this.#subscribers.delete(topic);
    return Promise.resolve();
  }

  /** Also for what is published while it waits. */
  async flush(): Promise<void> {
    while (this.#under.size > 0) await Promise.all(this.#under);
  }

  clearTopic(): Promise<void> {
    return Promise.resolve();
  }

  getHistory(): Promise<Event[]> {
    return Promise.resolve([]);
  }

  subscribeWithReplay(topic: string, callback: EventCallback): Promise<void> {
    return this.subscribe(topic, callback);
  }

  subscribeFromOffset(topic: string, _offset: number, callback: EventCallback): Promise<void> {
    return this.subscribe(topic, callback);
  }

  get topics(): string[] {
    return [...this.#subscribers.keys()];
  }

  #deliver(callback: EventCallback, wire: string): void {
    const delivery = deliver(callback, wire).catch(() => {}); // a throw is a nack; this backend gives up
    this.#under.add(delivery);
    void delivery.finally(() => this.#under.delete(delivery));
  }
}

async function deliver(receive: EventCallback, wire: string): Promise<void> {
  await new Promise(resolve => setImmediate(resolve));
  const event = JSON.parse(wire) as Event;
  await receive({ ...event, createdAt: new Date(event.createdAt) }, () => Promise.resolve());
}
