import { expect, test } from 'vitest';

import { AsyncQueue } from '../../../src/core/queue.ts';

test('a reader that has stopped while it waited is handed nothing: the item stays unread', async () => {
  const queue = new AsyncQueue<string>();
  const [gone, other] = [queue[Symbol.asyncIterator](), queue[Symbol.asyncIterator]()];
  const [waiting, later] = [gone.next(), other.next()];
  await gone.return?.();
  expect(await waiting).toEqual({ done: true, value: undefined });
  queue.push('a');
  expect(await later).toEqual({ done: false, value: 'a' });
  await other.return?.();
  queue.push('b');
  expect([queue.taken, queue.size]).toEqual([['a'], 1]);
});

test('what is given back is unread, and read next', () => {
  const queue = new AsyncQueue<string>();
  for (const item of ['a', 'b', 'c']) queue.push(item);
  const [a = '', b = ''] = queue.drain();
  queue.push('d');
  queue.giveBack([b, 'c', 'unknown']);
  expect(queue.taken).toEqual([a]);
  expect(queue.drain()).toEqual(['b', 'c', 'd']);
});

test('when it has ended, readers are told and nothing more is taken', async () => {
  const queue = new AsyncQueue<string>();
  const next = queue[Symbol.asyncIterator]().next();
  queue.end();
  queue.push('late');
  expect(await next).toEqual({ done: true, value: undefined });
  expect(queue.taken).toEqual([]);
});
