/**
 * Deliveries in the hands of handlers, oldest first: a list that runs through the deliveries themselves. A table by id costs more
 * than all else at a busy topic: it is rebuilt all the time, and what its old parts name lives on past the next collection.
 */

import type { Delivery } from './delivery.ts';

export class InFlight {
  #oldest: Delivery | undefined;
  #newest: Delivery | undefined;

  get isEmpty(): boolean {
    return this.#oldest === undefined;
  }

  add(delivery: Delivery): void {
    delivery.older = this.#newest;
    if (this.#newest) this.#newest.newer = delivery;
    else this.#oldest = delivery;
    this.#newest = delivery;
  }

  /** Nothing happens when it is not in here, or not any more. */
  delete(delivery: Delivery): void {
    const { older, newer } = delivery;
    if (older === undefined && this.#oldest !== delivery) return;
    if (older) older.newer = newer;
    else this.#oldest = newer;
    if (newer) newer.older = older;
    else this.#newest = older;
    delivery.older = undefined;
    delivery.newer = undefined;
  }

  ids(): Set<string> {
    return new Set([...this].map(({ id }) => id));
  }

  *[Symbol.iterator](): Iterator<Delivery> {
    let next: Delivery | undefined;
    for (let delivery = this.#oldest; delivery; delivery = next) {
      next = delivery.newer; // what is done with a delivery may take it out
      yield delivery;
    }
  }
}
