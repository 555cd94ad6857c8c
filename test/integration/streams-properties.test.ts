/**
 * Any interleaving of publish, ack, nack, crash, reclaim, subscribe and unsubscribe: every event is handled in the end,
 * nothing stays pending, and first deliveries keep the order of the stream.
 */

import * as fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import type { EventCallback } from '../../src/contracts/pubsub.ts';
import type { RedisStreamsPubSub } from '../../src/redis/streams-pubsub.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { newEvent, numberOf, StreamsFixture } from '../support/streams-fixture.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

type Step =
  | { do: 'publish'; count: number }
  | { do: 'start' }
  | { do: 'unsubscribe'; who: number }
  | { do: 'crash'; who: number }
  | { do: 'cut'; who: number }
  | { do: 'pause'; ms: number };

type Habit = 'ack' | 'nack' | 'throw' | 'reject' | 'hold' | 'slow';

const who = fc.nat(5);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('publish' as const), count: fc.integer({ min: 1, max: 30 }) }) },
  { weight: 2, arbitrary: fc.constant({ do: 'start' as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('unsubscribe' as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), who }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pause' as const), ms: fc.integer({ min: 0, max: 40 }) }) },
);
const habit: fc.Arbitrary<Habit> = fc.constantFrom('ack', 'ack', 'ack', 'nack', 'throw', 'reject', 'hold', 'slow');

interface Worker {
  pubsub: RedisStreamsPubSub;
  proxy: TcpProxy;
  callback: EventCallback;
  firsts: number[];
}

describe('any interleaving', () => {
  let server: RedisServer;
  let redis: Redis;
  const fixture = new StreamsFixture();
  let proxies: TcpProxy[] = [];
  let runs = 0;

  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
  });
  const cleanUp = async () => {
    for (const proxy of proxies) proxy.restore();
    await fixture.closeAll();
    await Promise.all(proxies.splice(0).map(proxy => proxy.stop()));
  };
  afterEach(async () => {
    await cleanUp();
    proxies = [];
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  class Model {
    readonly topic = `model-${runs++}`;
    readonly handled = new Set<number>();
    readonly workers: Worker[] = [];
    readonly all: Worker[] = [];
    readonly #habits: readonly Habit[];
    readonly #publisher = fixture.open({ url: server.url });
    published = 0;
    #calls = 0;

    constructor(habits: readonly Habit[]) {
      this.#habits = habits;
    }

    async take(one: Step): Promise<void> {
      if (one.do === 'publish') {
        for (let at = 0; at < one.count; at++) await this.#publisher.publish(this.topic, newEvent(this.published++));
      } else if (one.do === 'start') await this.start();
      else if (one.do === 'pause') await new Promise(resolve => setTimeout(resolve, one.ms));
      else if (this.workers.length > 0) await this.#disturb(one);
    }

    async #disturb(one: { do: 'unsubscribe' | 'crash' | 'cut'; who: number }): Promise<void> {
      const at = one.who % this.workers.length;
      const worker = this.workers[at];
      if (!worker) return;
      if (one.do === 'cut') return worker.proxy.cut();
      this.workers.splice(at, 1);
      // A crash: from one moment to the next nothing of it reaches the server any more.
      if (one.do === 'crash') worker.proxy.blackHole();
      else await worker.pubsub.unsubscribe(this.topic, worker.callback);
    }

    async start(always?: Habit): Promise<Worker> {
      const proxy = await startTcpProxy(server.port);
      proxies.push(proxy);
      const pubsub = fixture.open({
        url: proxy.url,
        blockMs: 100,
        closeTimeoutMs: 200,
        reclaimIntervalMs: 40,
        reclaimIdleMs: 150,
        maxDeliveryAttempts: Infinity,
      });
      const firsts: number[] = [];
      const callback: EventCallback = async (event, ack, nack) => {
        if (event.deliveryAttempt === 1) firsts.push(numberOf(event));
        const chosen = always ?? this.#habits[this.#calls++ % this.#habits.length] ?? 'ack';
        if (chosen === 'throw') throw new Error('thrown');
        if (chosen === 'reject') return Promise.reject(new Error('rejected'));
        if (chosen === 'nack') return nack?.();
        if (chosen === 'hold') return undefined;
        if (chosen === 'slow') await new Promise(resolve => setTimeout(resolve, 5));
        // Its work is done. Whether the ack's reply arrives, in a crash, is another question.
        this.handled.add(numberOf(event));
        await ack?.();
      };
      const worker = { pubsub, proxy, callback, firsts };
      await pubsub.subscribe(this.topic, callback, { group: 'workers' });
      this.workers.push(worker);
      this.all.push(worker);
      return worker;
    }

    /** Those that hold events die; one that acks everything finds all that is left. */
    async finish(): Promise<void> {
      for (const { proxy } of this.workers.splice(0)) proxy.blackHole();
      await this.start('ack');
      const pending = async () => (await redis.xpending(`mastra:topic:${this.topic}`, 'workers'))[0] as number;
      await until('every event has been handled', () => this.handled.size === this.published);
      await until('nothing is pending', async () => (await pending()) === 0);
    }
  }

  it('loses no event', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), fc.array(habit, { minLength: 1, maxLength: 20 }), async (steps, habits) => {
        const model = new Model(habits);
        for (const one of steps) await model.take(one);
        await model.finish();
        expect(model.handled.size).toBe(model.published);
        await cleanUp();
      }),
      { numRuns: 15, endOnFailure: true },
    );
  }, 240_000);

  it('keeps the order of the stream for first deliveries', async () => {
    const calm = step.filter(one => one.do === 'publish' || one.do === 'start' || one.do === 'pause');
    await fc.assert(
      fc.asyncProperty(fc.array(calm, { maxLength: 20 }), fc.array(habit, { minLength: 1, maxLength: 20 }), async (steps, habits) => {
        const model = new Model(habits);
        for (const one of steps) await model.take(one);
        await model.finish();
        for (const { firsts } of model.all) expect(firsts).toEqual([...firsts].sort((a, b) => a - b));
        const all = model.all.flatMap(({ firsts }) => firsts);
        expect(new Set(all).size).toBe(all.length);
        await cleanUp();
      }),
      { numRuns: 8, endOnFailure: true },
    );
  }, 240_000);
});
