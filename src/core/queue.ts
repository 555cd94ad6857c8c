/**
 * An async iterable that is fed from outside. Unlike a stream it tells which items were handed to the
 * reader (`taken`), which is what "consumed by the run" means for signals that arrive while it runs.
 */
type Reader<T> = (result: IteratorResult<T, undefined>) => void;

export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly #items: T[] = [];
  #taken: T[] = [];
  #waiting: Reader<T>[] = [];
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

  /** Items that were taken and could not be used are as if nobody had taken them: the next ones that are read. */
  giveBack(items: readonly T[]): void {
    const back = this.#taken.filter(item => items.includes(item));
    this.#taken = this.#taken.filter(item => !items.includes(item));
    this.#items.unshift(...back);
  }

  /** No more items; readers that wait are told. Items that nobody read stay unread. */
  end(): void {
    this.#ended = true;
    for (const reader of this.#waiting.splice(0)) reader({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): AsyncIterator<T, undefined> {
    const own = new Set<Reader<T>>();
    return {
      next: () =>
        new Promise(resolve => {
          if (this.#ended) return resolve({ done: true, value: undefined });
          const item = this.#items.shift();
          if (item !== undefined) return this.#hand(item, resolve);
          this.#waiting.push(resolve);
          own.add(resolve);
        }),
      // Whoever has stopped reading must be handed nothing any more: it would count as taken.
      return: () => {
        for (const reader of this.#waiting.filter(waiting => own.has(waiting))) reader({ done: true, value: undefined });
        this.#waiting = this.#waiting.filter(waiting => !own.has(waiting));
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  #hand(item: T, reader: Reader<T>): void {
    this.#taken.push(item);
    reader({ done: false, value: item });
  }
}
