/** One entry in the hands of its handlers. It is settled once, by whichever comes first: the handlers or the timeout. */

import type { DecodedEntry } from './codec.ts';

/** What a delivery needs of its feed. */
export interface Settling {
  ack(delivery: Delivery): Promise<void>;
  nack(delivery: Delivery): Promise<void>;
  extend(delivery: Delivery): Promise<void>;
}

export interface DeliveryHandles {
  readonly ack: () => Promise<void>;
  readonly nack: () => Promise<void>;
  readonly extend: () => Promise<void>;
}

export class Delivery {
  readonly id: string;
  readonly decoded: DecodedEntry;
  readonly attempt: number;
  /** When a handler last showed that it works on this, on the monotonic clock. */
  sinceMs: number;
  /** Neighbours in `InFlight`. */
  older: Delivery | undefined;
  newer: Delivery | undefined;
  readonly #feed: Settling;
  #waiting: number;
  #nacked = false;
  #settled: Promise<void> | undefined;

  constructor(
    feed: Settling,
    id: string,
    decoded: DecodedEntry,
    attempt: number,
    handlers: number,
    sinceMs: number,
  ) {
    this.#feed = feed;
    this.id = id;
    this.decoded = decoded;
    this.attempt = attempt;
    this.#waiting = handlers;
    this.sinceMs = sinceMs;
  }

  get settled(): boolean {
    return this.#settled !== undefined;
  }

  /** For one handler. The entry is settled when all have answered: acked if all acked, else given back once. */
  handles(): DeliveryHandles {
    let answered = false;
    const answer = (nacked: boolean): Promise<void> => {
      if (answered || this.#settled) return this.#settled ?? Promise.resolve();
      answered = true;
      this.#nacked ||= nacked;
      if (--this.#waiting > 0) return Promise.resolve();
      this.#settled = this.#nacked ? this.#feed.nack(this) : this.#feed.ack(this);
      return this.#settled;
    };
    return {
      ack: () => answer(false),
      nack: () => answer(true),
      extend: () => (answered || this.#settled ? Promise.resolve() : this.#feed.extend(this)),
    };
  }

  /** Nacks on behalf of handlers that are silent; what they say later changes nothing. */
  expire(): Promise<void> {
    this.#settled ??= this.#feed.nack(this);
    return this.#settled;
  }
}
