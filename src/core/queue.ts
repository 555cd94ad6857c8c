/**
 * An async iterable that is fed from outside. Unlike a stream it tells which items were handed to the
 * reader (`taken`), which is what "consumed by the run" means for signals that arrive while it runs.
 */
export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly #items: T[] = [];
  readonly #taken: T[] = [];
  #waiting: ((result: IteratorResult<T, undefined>) => void)[] = [];
  #ended = false;

  get taken(): readonly T[] {
    return this.#taken;
  }

  /** How many are there now that nobody took. */
  get size(): number {
    return this.#items.length;
  }

  push(item: T): void {
    if (this.#ended) return;
    const reader = this.#waiting.shift();
    if (reader) this.#hand(item, reader);
    else this.#items.push(item);
  }

  /** What is there now, without waiting. */
  drain(): T[] {
    const items = this.#items.splice(0);
    this.#taken.push(...items);
    return items;
  }

  /** No more items; readers that wait are told. Items that nobody read stay unread. */
  end(): void {
    this.#ended = true;
    for (const reader of this.#waiting.splice(0)) reader({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): AsyncIterator<T, undefined> {
    return {
      next: () =>
        new Promise(resolve => {
          if (this.#ended) return resolve({ done: true, value: undefined });
          const item = this.#items.shift();
          if (item === undefined) this.#waiting.push(resolve);
          else this.#hand(item, resolve);
        }),
      return: () => Promise.resolve({ done: true, value: undefined }),
    };
  }

  #hand(item: T, reader: (result: IteratorResult<T, undefined>) => void): void {
    this.#taken.push(item);
    reader({ done: false, value: item });
  }
}
