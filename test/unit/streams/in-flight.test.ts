import * as fc from 'fast-check';
import { expect, it } from 'vitest';

import { Delivery } from '../../../src/redis/streams/delivery.ts';
import { InFlight } from '../../../src/redis/streams/in-flight.ts';

const settling = { ack: () => Promise.resolve(), nack: () => Promise.resolve(), extend: () => Promise.resolve() };
const decoded = { event: {} as never, json: '{}', trace: undefined };
const made = (n: number) => new Delivery(settling, `${n}-0`, decoded, 1, 1, 0);

it('is what was added and not taken out, in that order, whatever is taken out when', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constant('add' as const), fc.nat({ max: 20 }))), steps => {
      const [inFlight, all, expected] = [new InFlight(), [] as Delivery[], new Set<Delivery>()];
      for (const step of steps) {
        if (step === 'add') {
          const delivery = made(all.length);
          all.push(delivery);
          expected.add(delivery);
          inFlight.add(delivery);
        } else {
          const delivery = all[step] ?? made(-1); // also one that has gone, or never came
          expected.delete(delivery);
          inFlight.delete(delivery);
        }
        expect([...inFlight]).toEqual([...expected]);
        expect(inFlight.isEmpty).toBe(expected.size === 0);
        expect(inFlight.ids()).toEqual(new Set([...expected].map(({ id }) => id)));
      }
    }),
  );
});

it('leaves nothing of a delivery behind that would keep another alive', () => {
  const [inFlight, ...three] = [new InFlight(), made(1), made(2), made(3)] as const;
  for (const delivery of three) inFlight.add(delivery);
  for (const delivery of three) inFlight.delete(delivery);
  expect(three.flatMap(({ older, newer }) => [older, newer])).toEqual(Array(6).fill(undefined));
});

it('goes on when the delivery that is looked at is taken out', () => {
  const inFlight = new InFlight();
  for (const n of [1, 2, 3]) inFlight.add(made(n));
  const seen: string[] = [];
  for (const delivery of inFlight) {
    seen.push(delivery.id);
    inFlight.delete(delivery);
  }
  expect(seen).toEqual(['1-0', '2-0', '3-0']);
  expect(inFlight.isEmpty).toBe(true);
});
