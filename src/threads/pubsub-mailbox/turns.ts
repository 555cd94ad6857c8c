/** One step at a time for each key, in the order in which they were asked for. */
export class Turns {
  readonly #tails = new Map<string, Promise<void>>();

  async run<T>(key: string, step: () => Promise<T>): Promise<T> {
    const work = (this.#tails.get(key) ?? Promise.resolve()).then(step);
    // The next one starts also when this one failed; the failure is this one's caller's to handle.
    const tail = work.then(
      () => {},
      () => {},
    );
    this.#tails.set(key, tail);
    try {
      return await work;
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    }
  }
}
