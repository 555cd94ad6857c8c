/**
 * Every event for every member. The stream is read without a consumer group: there is nobody to share the events with,
 * so the position is kept here, an ack costs nothing and a process that dies leaves nothing behind on the server.
 *
 * Members may be at different places (one that joins later starts at the beginning): the stream is read from where the
 * last of them is, and each skips what it has had.
 */

import type { EventCallback } from '../../contracts/pubsub.ts';
import { errorMessage } from '../../core/errors.ts';
import { retryFields } from './codec.ts';
import type { Entry } from './codec.ts';
import type { Delivery } from './delivery.ts';
import { Feed } from './feed.ts';
import type { FeedContext, Member } from './feed.ts';
import type { StreamPublisher } from './publisher.ts';
import { compareIds, streamStart } from './stream-id.ts';

export class FanoutFeed extends Feed {
  readonly group = undefined;
  readonly #publisher: StreamPublisher;
  #members: Member[] = [];
  #position = streamStart;
  #ahead: string | undefined;
  /** Entries that the stream had been given up to the position; unknown after a member that was behind has left. */
  #ordinal: number | undefined;

  constructor(topic: string, key: string, context: FeedContext, publisher: StreamPublisher) {
    super(topic, key, context);
    this.#publisher = publisher;
  }

  protected get tracksInFlight(): boolean {
    return this.context.settings.inFlightTimeoutMs > 0;
  }

  get members(): readonly Member[] {
    return this.#members;
  }

  /** Entries after this one are wanted. */
  get position(): string {
    return this.#ahead ?? this.#position;
  }

  /** The next read begins behind entries that are here and not delivered yet. */
  readAhead(after: string | undefined): void {
    this.#ahead = after;
  }

  get ordinal(): number | undefined {
    return this.#ordinal;
  }

  /** `ordinal`: how many entries the stream had been given up to the member's position. */
  join(member: Member, ordinal: number): void {
    if (this.#members.length === 0 || compareIds(member.cursor, this.#position) < 0) this.#ordinal = ordinal;
    this.#members = [...this.#members, member];
    this.#reposition();
    this.reader?.ring(this);
  }

  /** So many entries after the position were removed before they were read. */
  skipped(count: number): void {
    if (this.#ordinal !== undefined) this.#ordinal += count;
    this.trimmed(count);
  }

  leave(callback: EventCallback): Member | undefined {
    const member = this.#members.find(one => one.callback === callback);
    this.#members = this.#members.filter(one => one !== member);
    const before = this.#position;
    this.#reposition();
    if (this.#position !== before) this.#ordinal = undefined;
    return member;
  }

  /** The stream was deleted: what comes is new, even if its ids are lower than those seen. */
  restart(): void {
    for (const member of this.#members) member.cursor = streamStart;
    this.#ahead = undefined;
    this.#position = streamStart;
    this.#ordinal = 0;
  }

  /** Whether it would make a difference if the stream had started over. */
  get mayRestart(): boolean {
    return this.#position !== streamStart;
  }

  /** A stream whose last id is older than what we have read is another one. */
  restartedAs(lastGeneratedId: string): boolean {
    if (compareIds(lastGeneratedId, this.#position) >= 0) return false;
    this.restart();
    return true;
  }

  accept(entries: readonly Entry[]): void {
    this.#ahead = undefined;
    for (const entry of entries) {
      const behind = this.#members.filter(member => compareIds(entry.id, member.cursor) > 0);
      for (const member of behind) member.cursor = entry.id;
      if (compareIds(entry.id, this.#position) > 0) {
        this.#position = entry.id;
        if (this.#ordinal !== undefined) this.#ordinal++;
      }
      if (behind.length === 0) continue;
      const decoded = this.decode(entry);
      if (decoded) this.deliver(entry.id, decoded, decoded.event.deliveryAttempt ?? 1, behind);
    }
    this.#reposition();
  }

  rest(): void {
    // Nothing of a fan-out feed is left on the server.
  }

  abandon(delivery: Delivery): void {
    this.inFlight.delete(delivery);
  }

  ack(delivery: Delivery): Promise<void> {
    this.inFlight.delete(delivery);
    return Promise.resolve();
  }

  /** The next attempt goes to everybody: the wire has no way to address one subscriber. */
  async nack(delivery: Delivery): Promise<void> {
    this.inFlight.delete(delivery);
    if (this.exhausted(delivery)) return;
    try {
      await this.#publisher.append(this.key, retryFields(delivery.decoded, delivery.attempt + 1));
    } catch (error) {
      this.context.logger.warn('a nack failed and its event is not redelivered', {
        topic: this.topic,
        eventId: delivery.decoded.event.id,
        error: errorMessage(error),
      });
    }
  }

  extend(delivery: Delivery): Promise<void> {
    delivery.sinceMs = this.context.clock.monotonicMs();
    return Promise.resolve();
  }

  #reposition(): void {
    let position: string | undefined;
    for (const { cursor } of this.#members) {
      if (position === undefined || compareIds(cursor, position) < 0) position = cursor;
    }
    if (position !== undefined) this.#position = position;
  }
}
