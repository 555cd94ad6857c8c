import * as fc from 'fast-check';
import { it } from 'vitest';

import { MemoryLeaseProvider } from '../../../src/memory/memory-leases.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { ownSteps, play } from '../../support/lease-steps.ts';

it('any history of leases in memory, with losses, is as the model says', async () => {
  await fc.assert(
    fc.asyncProperty(ownSteps, async steps => {
      const clock = new FakeClock();
      await play(steps, { provider: new MemoryLeaseProvider(clock), pass: async ms => clock.stall(ms) });
    }),
    { numRuns: 3000 },
  );
});
