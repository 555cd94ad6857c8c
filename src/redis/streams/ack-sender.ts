/** Sends what handlers acked: everything of one tick in few commands, each entry only if it is still ours. */

import type { Redis } from 'ioredis';

import type { ScriptCall } from '../script-runner.ts';
import { loadScript, runScript } from '../script-runner.ts';
import type { Delivery } from './delivery.ts';
import { isMoved, isTransient } from '../failures.ts';
import type { AckBatch, GroupFeed } from './group-feed.ts';
import { compareIds } from './stream-id.ts';

interface Outgoing {
  readonly feed: GroupFeed;
  readonly batch: AckBatch;
}

/** Batches (of up to 128 ids each) and ids in one script call. */
const maxBatches = 64;
const maxIds = 1024;

export class AckSender {
  readonly #reader: Redis;
  readonly #cluster: boolean;
  readonly #moved: (feed: GroupFeed) => void;
  readonly #script = loadScript('ack-events');
  readonly #dirty = new Set<GroupFeed>();

  constructor(reader: Redis, cluster: boolean, moved: (feed: GroupFeed) => void) {
    this.#reader = reader;
    this.#cluster = cluster;
    this.#moved = moved;
  }

  get waiting(): boolean {
    return this.#dirty.size > 0;
  }

  add(feed: GroupFeed): void {
    this.#dirty.add(feed);
  }

  /** Answers whether the server answered. Acks that could not be sent wait for the next connection. */
  async send(): Promise<boolean> {
    const outgoing = [...this.#dirty].flatMap(feed => feed.takeAcks().map(batch => ({ feed, batch })));
    this.#dirty.clear();
    const answers = await Promise.all(chunked(outgoing, this.#cluster).map(chunk => this.#sendChunk(chunk)));
    return answers.every(Boolean);
  }

  async #sendChunk(chunk: readonly Outgoing[]): Promise<boolean> {
    const shown = chunk.map(({ feed, batch }) => feed.context.telemetry.settling('ack', feed.topic, feed.group, batch.deliveries));
    try {
      await runScript(this.#reader, this.#call(chunk));
      for (const end of shown) end();
      for (const { feed, batch } of chunk) feed.settledAt(batch);
      return true;
    } catch (error) {
      for (const end of shown) end(error);
      for (const { feed, batch } of chunk) {
        if (!isTransient(error)) feed.settledAt(batch);
        else {
          feed.returnAcks(batch);
          if (isMoved(error)) this.#moved(feed);
        }
      }
      return false;
    }
  }

  #call(chunk: readonly Outgoing[]): ScriptCall {
    const args: (string | number)[] = [chunk[0]?.feed.consumer ?? ''];
    for (const { feed, batch } of chunk) {
      args.push(feed.group, batch.deliveries.length);
      for (const { id } of inOrder(batch.deliveries)) args.push(id);
    }
    return { script: this.#script, keys: chunk.map(({ feed }) => feed.key), args };
  }
}

function chunked(outgoing: readonly Outgoing[], cluster: boolean): Outgoing[][] {
  const chunks: Outgoing[][] = [];
  let ids = 0;
  for (const one of outgoing) {
    const last = chunks.at(-1);
    if (last && !cluster && last.length < maxBatches && ids + one.batch.deliveries.length <= maxIds) {
      last.push(one);
      ids += one.batch.deliveries.length;
    } else {
      chunks.push([one]);
      ids = one.batch.deliveries.length;
    }
  }
  return chunks;
}

/** Handlers mostly answer in the order of their entries. */
function inOrder(deliveries: Delivery[]): Delivery[] {
  for (let at = 1; at < deliveries.length; at++) {
    if (byId(deliveries[at - 1] as Delivery, deliveries[at] as Delivery) > 0) return deliveries.sort(byId);
  }
  return deliveries;
}

const byId = (one: Delivery, other: Delivery) => compareIds(one.id, other.id);
