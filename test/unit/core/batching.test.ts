import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { Batcher, checkBatchPolicy } from '../../../src/core/batching.ts';
import type { BatchPolicy } from '../../../src/core/batching.ts';
import { FakeClock } from '../../support/fake-clock.ts';

interface Numbered {
  readonly n: number;
}

function batch(policy: BatchPolicy<Numbered>) {
  const clock = new FakeClock();
  const delivered: number[] = [];
  const dropped: number[] = [];
  const abandoned: number[] = [];
  const problems: string[] = [];
  const batcher = new Batcher<Numbered>(policy, clock, problem => void problems.push(problem));
  const push = (n: number) =>
    batcher.push({
      event: { n },
      deliver: () => void delivered.push(n),
      drop: () => void dropped.push(n),
      abandon: () => void abandoned.push(n),
    });
  return { clock, batcher, push, delivered, dropped, abandoned, problems };
}

describe('a batch', () => {
  it('goes out when it is full', () => {
    const { push, delivered } = batch({ maxSize: 3 });
    for (let n = 0; n < 7; n++) push(n);
    expect(delivered).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('goes out when its oldest event has waited for long enough, counted from that event', async () => {
    const { clock, push, delivered } = batch({ maxWaitMs: 100 });
    push(0);
    await clock.advance(60);
    push(1);
    await clock.advance(39);
    expect(delivered).toEqual([]);
    await clock.advance(1);
    expect(delivered).toEqual([0, 1]);
  });

  it('goes out at once for an immediate event', () => {
    const { push, delivered } = batch({ maxSize: 100, isImmediate: ({ n }) => n === 2 });
    push(0);
    push(1);
    push(2);
    expect(delivered).toEqual([0, 1, 2]);
  });

  it('keeps its distance from the one before, whatever else is due', async () => {
    const { clock, push, delivered } = batch({ maxSize: 2, minIntervalMs: 50, isImmediate: ({ n }) => n === 9 });
    push(0);
    push(1);
    push(2);
    push(3);
    push(9);
    expect(delivered).toEqual([0, 1]);
    await clock.advance(50);
    expect(delivered).toEqual([0, 1, 2, 3, 9]);
  });

  it('without a size or a wait delivers as soon as the interval allows', async () => {
    const { clock, push, delivered } = batch({ minIntervalMs: 50 });
    push(0);
    push(1);
    expect(delivered).toEqual([0]);
    await clock.advance(50);
    expect(delivered).toEqual([0, 1]);
  });

  it('drops what is coalesced away, as acked', () => {
    const { push, delivered, dropped } = batch({ maxSize: 4, coalesce: events => events.filter(({ n }) => n % 2 === 1) });
    for (let n = 0; n < 4; n++) push(n);
    expect(delivered).toEqual([1, 3]);
    expect(dropped).toEqual([0, 2]);
  });

  it.each([
    ['throws', () => { throw new Error('broken'); }],
    ['makes up events', () => [{ n: 42 }]],
  ])('is delivered whole when coalesce %s, and that is said', (_how, coalesce) => {
    const { push, delivered, dropped, problems } = batch({ maxSize: 2, coalesce });
    push(0);
    push(1);
    expect(delivered).toEqual([0, 1]);
    expect(dropped).toEqual([]);
    expect(problems).toHaveLength(1);
  });

  it.each([
    ['drop-oldest', [2, 3, 4]],
    ['drop-newest', [0, 1, 2]],
    ['coalesce-or-drop-oldest', [2, 3, 4]],
  ] as const)('that overflows obeys %s and says so once', (overflow, left) => {
    const { batcher, push, delivered, dropped, problems } = batch({ maxSize: 100, maxBufferSize: 3, overflow });
    for (let n = 0; n < 5; n++) push(n);
    batcher.flush();
    expect(delivered).toEqual(left);
    expect(dropped).toHaveLength(2);
    expect(problems).toHaveLength(1);
  });

  it('coalesces before it drops on overflow', () => {
    const { batcher, push, delivered } = batch({ maxSize: 100, maxBufferSize: 3, coalesce: events => events.filter(({ n }) => n !== 1) });
    for (let n = 0; n < 4; n++) push(n);
    batcher.flush();
    expect(delivered).toEqual([0, 2, 3]);
  });

  it('never drops immediate events on overflow', async () => {
    const { clock, push, delivered } = batch({ maxSize: 1, minIntervalMs: 100, maxBufferSize: 2, isImmediate: () => true });
    for (let n = 0; n < 6; n++) push(n);
    await clock.advance(100);
    expect(delivered).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('abandons what it holds when its subscription ends, and leaves no timer', () => {
    const { batcher, clock, push, delivered, abandoned } = batch({ maxWaitMs: 100 });
    push(0);
    push(1);
    batcher.dispose();
    expect(delivered).toEqual([]);
    expect(abandoned).toEqual([0, 1]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('delivers, drops or abandons each event exactly once, in order, under any policy', async () => {
    const policy = fc.record(
      {
        maxSize: fc.integer({ min: 1, max: 5 }),
        maxWaitMs: fc.integer({ min: 0, max: 50 }),
        minIntervalMs: fc.integer({ min: 0, max: 50 }),
        maxBufferSize: fc.integer({ min: 1, max: 6 }),
        overflow: fc.constantFrom('drop-oldest' as const, 'drop-newest' as const, 'coalesce-or-drop-oldest' as const),
        isImmediate: fc.constant(({ n }: Numbered) => n % 7 === 0),
        coalesce: fc.constant((events: Numbered[]) => events.filter(({ n }) => n % 3 > 0)),
      },
      { requiredKeys: [] },
    );
    const steps = fc.array(fc.oneof(fc.constant('push' as const), fc.integer({ min: 1, max: 60 })), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(policy, steps, async (chosen, taken) => {
        const { batcher, clock, push, delivered, dropped, abandoned } = batch(chosen);
        let n = 0;
        for (const step of taken) {
          if (step === 'push') push(n++);
          else await clock.advance(step);
        }
        batcher.dispose();
        expect(delivered).toEqual([...delivered].sort((a, b) => a - b));
        expect([...delivered, ...dropped, ...abandoned].sort((a, b) => a - b)).toEqual(Array.from({ length: n }, (_, at) => at));
        expect(clock.pendingTimers).toBe(0);
      }),
      { numRuns: 200 },
    );
  });

  it('refuses a policy that makes no sense, naming the field', () => {
    expect(() => checkBatchPolicy({ maxWaitMs: -1 })).toThrow('batch.maxWaitMs');
    expect(() => checkBatchPolicy({ coalesce: 'x' as never })).toThrow('batch.coalesce');
  });
});
