/**
 * What one process reads of one stream: as a member of a consumer group (`GroupFeed`) or for fan-out (`FanoutFeed`). A
 * feed delivers and settles; when it is read, and over which connection, is its reader's business.
 */

import type { Event, EventCallback } from '../../contracts/pubsub.ts';
import type { Batcher } from '../../core/batching.ts';
import type { Clock } from '../../core/clock.ts';
import { errorMessage } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { decodeEntry, parsedEvent } from './codec.ts';
import type { DecodedEntry, Entry } from './codec.ts';
import { Delivery } from './delivery.ts';
import type { DeliveryHandles } from './delivery.ts';
import { InFlight } from './in-flight.ts';
import type { StreamsSettings } from './options.ts';
import type { StreamTelemetry } from './telemetry.ts';

export interface FeedContext {
  readonly settings: StreamsSettings;
  readonly logger: Logger;
  readonly telemetry: StreamTelemetry;
  readonly clock: Clock;
}

/** Whoever reads feeds. */
export interface FeedReader {
  /** There may be something to read. */
  ring(feed: Feed): void;
}

export interface ReadSchedule {
  state: 'idle' | 'queued' | 'reading';
  /** While reading: read again. */
  rung: boolean;
  /** In a row. After one there may be more to read; after some, trimming may overtake the reader. */
  fullReads: number;
  /** It was not read for a while: entries may have been trimmed before their turn. */
  checkGap: boolean;
  /** The stream changed since it was last read, as far as the doorbell knows. */
  news: boolean;
  /** Reads that failed in a row. */
  failures: number;
  /** Not in one command with others: one of them fails. */
  alone: boolean;
}

export interface Member {
  readonly callback: EventCallback;
  readonly batcher: Batcher | undefined;
  /** Fan-out: the last entry that this member was given, or that lies before its beginning. */
  cursor: string;
}

export abstract class Feed {
  readonly topic: string;
  readonly key: string;
  readonly context: FeedContext;
  abstract readonly group: string | undefined;

  /** Kept by the reader. */
  readonly schedule: ReadSchedule = {
    state: 'idle',
    rung: false,
    fullReads: 0,
    checkGap: false,
    news: false,
    failures: 0,
    alone: false,
  };
  reader: FeedReader | undefined;

  readonly inFlight = new InFlight();
  #running = 0;
  #undecodableSaid = false;
  #fullSaid = false;
  #trimSaid = false;

  constructor(topic: string, key: string, context: FeedContext) {
    this.topic = topic;
    this.key = key;
    this.context = context;
  }

  abstract get members(): readonly Member[];
  /** Whether it matters what is in flight. What is not tracked costs nothing when its handler never settles it. */
  protected abstract get tracksInFlight(): boolean;
  /** A read is over and nobody listens any more. */
  abstract rest(): void;
  /** A batch that held this entry ends without handing it out. */
  abstract abandon(delivery: Delivery): void;
  /** Entries that were read, in order. */
  abstract accept(entries: readonly Entry[]): void;
  abstract ack(delivery: Delivery): Promise<void>;
  abstract nack(delivery: Delivery): Promise<void>;
  abstract extend(delivery: Delivery): Promise<void>;

  /** Whether reading on makes sense: somebody listens, and not too many handlers are running. */
  get wanted(): boolean {
    if (this.members.length === 0) return false;
    if (this.#running < this.context.settings.maxInFlight) return true;
    if (!this.#fullSaid) {
      this.#fullSaid = true;
      this.context.logger.warn('a subscription has as many handlers running as allowed; its stream waits', {
        topic: this.topic,
        group: this.group,
        maxInFlight: this.context.settings.maxInFlight,
      });
    }
    return false;
  }

  protected decode(entry: Entry): DecodedEntry | undefined {
    const decoded = decodeEntry(entry);
    if (decoded) return decoded;
    this.context.telemetry.undecodable();
    if (!this.#undecodableSaid) {
      this.#undecodableSaid = true;
      this.context.logger.warn('an entry holds no event and is skipped; further ones of this topic are only counted', {
        topic: this.topic,
        group: this.group,
        entryId: entry.id,
      });
    }
    return undefined;
  }

  protected deliver(id: string, decoded: DecodedEntry, attempt: number, members: readonly Member[]): void {
    const delivery = new Delivery(this, id, decoded, attempt, members.length, this.context.clock.monotonicMs());
    if (this.tracksInFlight) this.inFlight.add(delivery);
    for (const member of members) {
      // Each gets an object of its own, so that what one handler changes is not what another sees.
      const event = member === members[0] ? decoded.event : (parsedEvent(decoded.json) ?? decoded.event);
      event.deliveryAttempt = attempt;
      const handles = delivery.handles();
      if (!member.batcher) this.#invoke(member.callback, delivery, event, handles);
      else {
        member.batcher.push({
          event,
          deliver: () => this.#invoke(member.callback, delivery, event, handles),
          drop: () => void handles.ack(),
          abandon: () => this.abandon(delivery),
        });
      }
    }
  }

  #invoke(
    callback: EventCallback,
    delivery: Delivery,
    event: Event,
    handles: DeliveryHandles,
  ): void {
    const { telemetry } = this.context;
    const scope = telemetry.process(this.topic, this.group, delivery.decoded, delivery.attempt);
    const failed = (error: unknown) => {
      scope.end(error);
      this.context.logger.debug('a handler failed; its event is nacked', { topic: this.topic, error: errorMessage(error) });
      void handles.nack();
    };
    let result: unknown;
    try {
      result = scope.run(() => callback(event, handles.ack, handles.nack, handles.extend) as unknown);
    } catch (error) {
      return failed(error);
    }
    if (!isThenable(result)) return scope.end();
    this.#running++;
    result.then(
      () => {
        this.#finished();
        scope.end();
      },
      (error: unknown) => {
        this.#finished();
        failed(error);
      },
    );
  }

  #finished(): void {
    const { maxInFlight } = this.context.settings;
    // Read on when half of the room is free again, not for each handler that ends.
    if (this.#running-- === Math.max(1, Math.ceil(maxInFlight / 2))) this.reader?.ring(this);
  }

  /** Nacks what its handler has been silent about for longer than allowed. */
  expireInFlight(): void {
    const { inFlightTimeoutMs } = this.context.settings;
    const cutoffMs = this.context.clock.monotonicMs() - inFlightTimeoutMs;
    for (const delivery of this.inFlight) {
      if (delivery.settled || delivery.sinceMs > cutoffMs) continue;
      this.context.logger.warn('a handler exceeded inFlightTimeoutMs; its event is nacked on its behalf', {
        topic: this.topic,
        group: this.group,
        entryId: delivery.id,
      });
      void delivery.expire();
    }
  }

  protected trimmed(count: number): void {
    this.context.telemetry.trimmed(count);
    if (this.#trimSaid) return;
    this.#trimSaid = true;
    this.context.logger.warn('events were trimmed before they were read; further ones of this topic are only counted', {
      topic: this.topic,
      group: this.group,
      events: count,
    });
  }

  /** Whether a nack means the end of this event. Counted and said here. */
  protected exhausted(delivery: Delivery): boolean {
    if (delivery.attempt < this.context.settings.maxDeliveryAttempts) return false;
    this.sayDropped(delivery.decoded.event, delivery.attempt);
    return true;
  }

  protected sayDropped(event: Event, attempt: number): void {
    this.context.telemetry.dropped();
    this.context.logger.warn('an event was dropped after its last delivery attempt', {
      topic: this.topic,
      group: this.group,
      eventId: event.id,
      eventType: event.type,
      attempt,
    });
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
