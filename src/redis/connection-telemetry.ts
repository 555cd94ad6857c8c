/** How connections fare, as metrics. The API only: without an SDK all of it does nothing. No address is on them. */

import { metrics } from '@opentelemetry/api';
import type { Counter, UpDownCounter } from '@opentelemetry/api';

/** The part of a client that is listened to. Both kinds of clients emit their status by its name. */
export interface ConnectionEvents {
  on(status: 'connecting' | 'ready' | 'reconnecting' | 'end', listener: () => void): unknown;
}

const states = ['connecting', 'ready', 'reconnecting'] as const;
type State = (typeof states)[number];

export class ConnectionTelemetry {
  readonly #status: UpDownCounter;
  readonly #reconnects: Counter;

  /** On the meter that is global now. */
  constructor() {
    const meter = metrics.getMeter('signals-runtime');
    this.#status = meter.createUpDownCounter('signals.redis.connection.status', {
      unit: '{connection}',
      description: 'Connections to the store by role and state: connecting for the first time, ready, or being made again.',
    });
    this.#reconnects = meter.createCounter('signals.redis.reconnects', {
      unit: '{reconnect}',
      description: 'Connections to the store that were lost and stand again, by role.',
    });
  }

  /** A client that nobody connects counts in no state. */
  watch(client: ConnectionEvents, role: string): void {
    let now: State | undefined;
    let wasReady = false;
    const enter = (next: State | undefined) => {
      if (next === now) return;
      if (now) this.#status.add(-1, { role, state: now });
      if (next) this.#status.add(1, { role, state: next });
      now = next;
    };
    // From the start, so that the first event of each can be seen as one.
    for (const state of states) this.#status.add(0, { role, state });
    this.#reconnects.add(0, { role });
    client.on('connecting', () => enter(wasReady ? 'reconnecting' : 'connecting'));
    client.on('reconnecting', () => enter(wasReady ? 'reconnecting' : 'connecting'));
    client.on('end', () => enter(undefined));
    client.on('ready', () => {
      enter('ready');
      if (wasReady) this.#reconnects.add(1, { role });
      wasReady = true;
    });
  }
}
