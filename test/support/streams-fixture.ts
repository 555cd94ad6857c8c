/** What the tests of the streams backend have in common. */

import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll } from 'vitest';

import type { Event, EventCallback, NewEvent } from '../../src/contracts/pubsub.ts';
import { RedisStreamsPubSub } from '../../src/redis/streams-pubsub.ts';
import type { RedisStreamsPubSubOptions } from '../../src/redis/streams-pubsub.ts';
import { startRedis } from './redis-server.ts';
import type { RedisServer } from './redis-server.ts';

export function newEvent(n: number, data: object = {}): NewEvent {
  return { type: 'test', data: { n, ...data }, runId: 'run-1' };
}

export function numberOf(event: Event): number {
  return (event.data as { n: number }).n;
}

export interface Recorder {
  callback: EventCallback;
  events: Event[];
  numbers: () => number[];
}

/** Acks at once and remembers. */
export function recorder(): Recorder {
  const events: Event[] = [];
  const callback: EventCallback = async (event, ack) => {
    events.push(event);
    await ack?.();
  };
  return { callback, events, numbers: () => events.map(numberOf) };
}

export interface Logged {
  level: 'debug' | 'warn';
  message: string;
  fields: Record<string, unknown>;
}

/** Opens instances that `closeAll` closes, and keeps what they log. */
export class StreamsFixture {
  readonly logged: Logged[] = [];
  readonly #opened: RedisStreamsPubSub[] = [];

  open(options: RedisStreamsPubSubOptions): RedisStreamsPubSub {
    const log = (level: Logged['level']) => (message: unknown, fields?: unknown) =>
      void this.logged.push({ level, message: String(message), fields: (fields ?? {}) as Record<string, unknown> });
    const pubsub = new RedisStreamsPubSub({ logger: { debug: log('debug'), warn: log('warn') }, ...options });
    this.#opened.push(pubsub);
    return pubsub;
  }

  warnings(pattern: RegExp): Logged[] {
    return this.logged.filter(({ level, message }) => level === 'warn' && pattern.test(message));
  }

  async closeAll(): Promise<void> {
    await Promise.all(this.#opened.splice(0).map(pubsub => pubsub.close()));
    this.logged.splice(0);
  }
}

/** A server for all tests of a file or `describe`, emptied after each. There once the first test begins. */
export function oneRedis(fixture: StreamsFixture): { readonly server: RedisServer; readonly redis: Redis } {
  const store = {} as { server: RedisServer; redis: Redis };
  beforeAll(async () => {
    store.server = await startRedis();
    store.redis = new Redis(store.server.url);
  });
  afterEach(async () => {
    await fixture.closeAll();
    await store.redis.flushall();
  });
  afterAll(async () => {
    store.redis.disconnect();
    await store.server.stop();
  });
  return store;
}
