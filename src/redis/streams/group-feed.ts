/** A consumer group's events, shared out among the members that this process has. All read as one consumer. */

import type { EventCallback } from '../../contracts/pubsub.ts';
import { errorMessage } from '../../core/errors.ts';
import { retryFields } from './codec.ts';
import type { Entry } from './codec.ts';
import type { Delivery } from './delivery.ts';
import { Feed } from './feed.ts';
import type { FeedContext, FeedReader, Member } from './feed.ts';
import type { GroupCommands } from './group-commands.ts';
import { compareIds } from './stream-id.ts';

/** Entries settled by one command. */
const maxAcksPerBatch = 128;

export interface AckBatch {
  readonly deliveries: Delivery[];
  readonly done: Promise<void>;
  resolve(): void;
}

export interface GroupReader extends FeedReader {
  /** There are acks to send. */
  acksWaiting(feed: GroupFeed): void;
}

export class GroupFeed extends Feed {
  readonly group: string;
  readonly consumer: string;
  declare reader: GroupReader | undefined;
  /** Where the group begins if it is new. */
  anchor: '0' | '$';
  /** The last entry that this process read of the group. */
  lastId: string | undefined;
  /**
   * Set when the connection went during a read: the server may have given us entries that never arrived. They are read
   * again from here, before anything new.
   */
  recoverAfter: string | undefined;
  #lost = 0;
  /** Told when nobody listens and nothing is left to settle. */
  onDrained: (() => void) | undefined;
  readonly #commands: GroupCommands;
  readonly #members: Member[] = [];
  /** Being handed back. */
  #returning = 0;
  #abandoned: string[] = [];
  #next = 0;
  /** Not confirmed by the server yet. */
  #unsent: AckBatch[] = [];

  constructor(
    topic: string,
    key: string,
    group: string,
    consumer: string,
    anchor: '0' | '$',
    context: FeedContext,
    commands: GroupCommands,
  ) {
    super(topic, key, context);
    this.group = group;
    this.consumer = consumer;
    this.anchor = anchor;
    this.#commands = commands;
  }

  /** A reclaim must not take for abandoned what is in the hands of a handler here. */
  protected get tracksInFlight(): boolean {
    return true;
  }

  get members(): readonly Member[] {
    return this.#members;
  }

  /** Nobody listens and nothing is left to settle. */
  get drained(): boolean {
    const { state } = this.schedule;
    return this.#members.length === 0 && this.inFlight.isEmpty && state === 'idle' && this.#returning === 0;
  }

  /** The stream was deleted: whatever comes is new. */
  restart(): void {
    this.lastId = undefined;
    this.anchor = '0';
  }

  join(member: Member): void {
    this.#members.push(member);
    this.reader?.ring(this);
  }

  leave(callback: EventCallback): Member | undefined {
    const at = this.#members.findIndex(member => member.callback === callback);
    return at < 0 ? undefined : this.#members.splice(at, 1)[0];
  }

  accept(entries: readonly Entry[], deliveryCounts?: ReadonlyMap<string, number>): void {
    const left: string[] = [];
    let here: Set<string> | undefined;
    for (const entry of entries) {
      if (this.lastId === undefined || compareIds(entry.id, this.lastId) > 0) this.lastId = entry.id;
      // Not new: a history read after a reconnect lists what is in flight too.
      else if ((here ??= this.inFlight.ids()).has(entry.id)) continue;
      const member = this.#nextMember();
      if (!member) {
        left.push(entry.id);
        continue;
      }
      this.#deliverTo(member, entry, deliveryCounts?.get(entry.id) ?? 1);
    }
    if (left.length > 0) void this.handBack(left);
  }

  #deliverTo(member: Member, entry: Entry, deliveryCount: number): void {
    const decoded = this.decode(entry);
    if (!decoded) return void this.#settleQuietly(entry.id);
    const attempt = (decoded.event.deliveryAttempt ?? 1) + deliveryCount - 1;
    // It was given to handlers as often as allowed and none of them lived to settle it.
    if (deliveryCount > 1 && attempt > this.context.settings.maxDeliveryAttempts) {
      this.sayDropped(decoded.event, attempt - 1);
      return void this.#settleQuietly(entry.id);
    }
    this.deliver(entry.id, decoded, attempt, [member]);
  }

  async #settleQuietly(id: string): Promise<void> {
    try {
      await this.#commands.settle(this, id);
    } catch (error) {
      this.context.logger.debug('an entry could not be acked; it is reclaimed', { error: errorMessage(error) });
    }
  }

  #nextMember(): Member | undefined {
    if (this.#members.length === 0) return undefined;
    this.#next = (this.#next + 1) % this.#members.length;
    return this.#members[this.#next];
  }

  /** So many entries of the group were removed unread, counted from its beginning. */
  lostSoFar(count: number): void {
    if (count > this.#lost) this.trimmed(count - this.#lost);
    this.#lost = count;
  }

  rest(): void {
    if (this.drained) this.onDrained?.();
  }

  abandon(delivery: Delivery): void {
    this.#forget(delivery);
    if (this.#abandoned.push(delivery.id) > 1) return;
    queueMicrotask(() => void this.handBack(this.#abandoned.splice(0)));
  }

  #forget(delivery: Delivery): void {
    this.inFlight.delete(delivery);
    if (this.#members.length === 0) this.rest();
  }

  /** Entries that were read and that nobody here will handle any more. */
  async handBack(ids: readonly string[]): Promise<void> {
    this.#returning++;
    try {
      await this.#commands.handBack(this, ids);
    } catch (error) {
      this.context.logger.warn('entries could not be handed back; siblings take them over once they are idle', {
        topic: this.topic,
        group: this.group,
        entries: ids.length,
        error: errorMessage(error),
      });
    } finally {
      this.#returning--;
      this.rest();
    }
  }

  ack(delivery: Delivery): Promise<void> {
    let batch = this.#unsent.at(-1);
    if (!batch || batch.deliveries.length >= maxAcksPerBatch) {
      const { promise, resolve } = Promise.withResolvers<void>();
      batch = { deliveries: [], done: promise, resolve };
      this.#unsent.push(batch);
      this.reader?.acksWaiting(this);
    }
    batch.deliveries.push(delivery);
    return batch.done;
  }

  takeAcks(): AckBatch[] {
    const batches = this.#unsent;
    this.#unsent = [];
    return batches;
  }

  get acksLeft(): boolean {
    return this.#unsent.length > 0;
  }

  /** The server could not be asked: they go out again with the next read. */
  returnAcks(batch: AckBatch): void {
    this.#unsent.unshift(batch);
    this.reader?.acksWaiting(this);
  }

  /** Until now a reclaim must not take these for abandoned. */
  settledAt(batch: AckBatch): void {
    for (const delivery of batch.deliveries) this.inFlight.delete(delivery);
    batch.resolve();
    this.rest();
  }

  /** No connection will carry them any more. What is pending is redelivered to a sibling. */
  abandonAcks(): void {
    for (const batch of this.takeAcks()) this.settledAt(batch);
  }

  async nack(delivery: Delivery): Promise<void> {
    const shown = this.context.telemetry.settling('nack', this.topic, this.group, [delivery]);
    const fields = this.exhausted(delivery) ? [] : retryFields(delivery.decoded, delivery.attempt + 1);
    try {
      const settled = await this.#commands.settle(this, delivery.id, fields);
      shown();
      if (!settled) {
        this.context.logger.debug('an event was no longer ours to nack', { topic: this.topic, entryId: delivery.id });
      }
    } catch (error) {
      shown(error);
      this.context.logger.warn('a nack failed; the event stays pending and is reclaimed', {
        topic: this.topic,
        group: this.group,
        eventId: delivery.decoded.event.id,
        error: errorMessage(error),
      });
    } finally {
      this.#forget(delivery);
    }
  }

  async extend(delivery: Delivery): Promise<void> {
    delivery.sinceMs = this.context.clock.monotonicMs();
    try {
      await this.#commands.extend(this, delivery.id);
    } catch (error) {
      this.context.logger.debug('an extend failed', { topic: this.topic, error: errorMessage(error) });
    }
  }
}
