import * as fc from 'fast-check';
import { expect, test } from 'vitest';

import { instant } from '../../../src/core/clock.ts';
import { Hold } from '../../../src/leases/hold.ts';
import { RenewalSchedule } from '../../../src/leases/renewal-schedule.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const leases = 6;
const atMs = fc.integer({ min: 0, max: 400 });
const lease = fc.nat({ max: leases - 1 });
const step = fc.oneof(
  fc.record({ do: fc.constant('set' as const), lease, atMs }),
  fc.record({ do: fc.constant('remove' as const), lease }),
  fc.record({ do: fc.constant('takeDue' as const), atMs }),
);

test('any history of a schedule is as that of a list', () => {
  const clock = new FakeClock();
  fc.assert(fc.property(fc.array(step, { maxLength: 60 }), steps => {
    const holds = Array.from({ length: leases }, (_, at) =>
      new Hold({ key: `k${at}`, owner: 'a', ttlMs: 15_000, askedAt: instant(clock) }, 650, clock, () => {}));
    const schedule = new RenewalSchedule();
    const list = new Map<Hold, number>();
    for (const { do: what, ...on } of steps) {
      const hold = holds['lease' in on ? on.lease : 0]!;
      if (what === 'set' && 'atMs' in on) {
        schedule.set(hold, on.atMs);
        list.set(hold, on.atMs);
      } else if (what === 'remove') {
        schedule.remove(hold);
        list.delete(hold);
      } else if ('atMs' in on) {
        const due = [...list].filter(([, dueMs]) => dueMs <= on.atMs).map(([held]) => held);
        const taken = schedule.takeDue(on.atMs);
        expect(new Set(taken)).toEqual(new Set(due));
        expect(taken).toHaveLength(due.length);
        for (const held of due) list.delete(held);
      }
      expect(schedule.nextMs()).toBe(Math.min(Infinity, ...list.values()));
    }
  }));
});
