/** A user's backend that answers nothing any more once its process is told to stop. */

import open from './streams.ts';

type Method = (...args: unknown[]) => unknown;

let stopping = false;
process.once('SIGTERM', () => (stopping = true));

export default async function openOne() {
  return new Proxy(await open(), {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => (stopping ? new Promise(() => {}) : (value as Method).apply(target, args));
    },
  });
}
