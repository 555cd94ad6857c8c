/** The feeds that a node serves, by their stream, and whose turn it is when each is looked at now and then. */

import type { Feed } from './feed.ts';

export class ServedFeeds {
  readonly #byKey = new Map<string, Feed[]>();
  /** Those whose turn is still to come in this round. */
  #turn: Feed[] = [];

  get count(): number {
    let count = 0;
    for (const feeds of this.#byKey.values()) count += feeds.length;
    return count;
  }

  add(feed: Feed): void {
    const feeds = this.#byKey.get(feed.key);
    if (!feeds) this.#byKey.set(feed.key, [feed]);
    else if (!feeds.includes(feed)) feeds.push(feed);
  }

  remove(feed: Feed): void {
    const left = this.#byKey.get(feed.key)?.filter(other => other !== feed) ?? [];
    if (left.length > 0) this.#byKey.set(feed.key, left);
    else this.#byKey.delete(feed.key);
  }

  of(key: string): readonly Feed[] {
    return this.#byKey.get(key) ?? [];
  }

  all(): Feed[] {
    return [...this.#byKey.values()].flat();
  }

  /** So large a share of all, each in its turn. Some may have left since the round began. */
  next(share: number): readonly Feed[] {
    if (this.#turn.length === 0) this.#turn = this.all();
    return this.#turn.splice(0, Math.ceil(this.count * share));
  }
}
