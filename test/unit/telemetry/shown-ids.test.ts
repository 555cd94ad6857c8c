import { expect, test } from 'vitest';

import { threadLeaseKey } from '../../../src/contracts/thread.ts';
import { ShownIds } from '../../../src/telemetry/shown-ids.ts';

const thread = { resourceId: 'ada', threadId: 'ada: plans' };
const key = threadLeaseKey(thread);
const plain = new ShownIds(false);
const hashed = new ShownIds(true);

test('without hashing all stays as it is', () => {
  expect(plain.text(`${key} of ada`, thread)).toBe(`${key} of ada`);
  expect(plain.fields({ threadId: 'ada' })).toEqual({ threadId: 'ada' });
});

test('a hash is the same wherever an id is shown', () => {
  expect(hashed.id('ada')).toMatch(/^[0-9a-f]{16}$/);
  expect(hashed.text(`a/1 no longer owns ${key}`)).toBe(`a/1 no longer owns ${hashed.id(key)}`);
  expect(hashed.text('GET /v1/threads/ada/ada%3A%20plans/cancel?x')).toBe(`GET /v1/threads/${hashed.id('ada')}/${hashed.id('ada: plans')}/cancel?x`);
  expect(hashed.text('/v1/threads/ada and /v1/threads/%zz/b')).toBe(`/v1/threads/${hashed.id('ada')} and /v1/threads/${hashed.id('%zz')}/${hashed.id('b')}`);
});

test('in texts about a thread its ids are hashed in any spelling, the longer first', () => {
  const text = `no "ada: plans" of ada (${key}, ada%3A%20plans)`;
  const [thread16, resource16, key16] = [hashed.id('ada: plans'), hashed.id('ada'), hashed.id(key)];
  expect(hashed.text(text, thread)).toBe(`no "${thread16}" of ${resource16} (${key16}, ${thread16})`);
});

test('names of routes, and words that a short id is part of, stay readable', () => {
  expect(hashed.text('/api/agents/echo/threads/subscribe')).toBe('/api/agents/echo/threads/subscribe');
  expect(hashed.text('a lease was lost', { resourceId: 'a', threadId: 'le' })).toBe('a lease was lost');
});

test('fields of logs are looked through at any depth; numbers, times and other texts stay', () => {
  const fields = { count: 3, none: null, key, list: [{ topic: 'talk', text: 'plain' }], threadId: 'ada', at: '2026-01-02T03:04:05Z' };
  expect(hashed.fields(fields)).toEqual({
    count: 3, none: null, key: hashed.id(key), list: [{ topic: hashed.id('talk'), text: 'plain' }], threadId: hashed.id('ada'),
    at: '2026-01-02T03:04:05Z',
  });
});
