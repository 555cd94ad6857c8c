/** What every thread mailbox promises, whatever it is built on. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { until } from '../support/until.ts';
import { Instance, limits, newStage, newThread } from './mailbox.harness.ts';
import type { Backend, MakeBackend, Stage } from './mailbox.harness.ts';
import { raceSignalsWithRuns } from './mailbox.race.ts';
import { operationTests } from './mailbox.suite-operations.ts';
import { outputTests } from './mailbox.suite-output.ts';
import { runTests } from './mailbox.suite-runs.ts';
import { signalTests } from './mailbox.suite-signals.ts';

export function describeMailbox(name: string, makeBackend: MakeBackend): void {
  describe(name, () => {
    let backend: Backend;
    let instances: Instance[] = [];
    let current: Stage;

    beforeAll(async () => {
      backend = await makeBackend(['pod-a.1', 'pod-b.1'], limits);
      instances = backend.instances.map(instance => new Instance(instance));
      await Promise.all(instances.map(instance => instance.listen()));
    });
    afterAll(async () => {
      await Promise.all(instances.map(instance => instance.stopListening()));
      await backend.close();
    });
    beforeEach(() => {
      current = newStage(instances, backend.leases);
    });

    signalTests(() => current);
    runTests(() => current);
    outputTests(() => current);
    operationTests(() => current);

    test('S2: when the dedupe window is over, an id is a new one', async () => {
      const short = await makeBackend(['pod-a.1', 'pod-b.1'], { ...limits, dedupeWindowMs: 300 });
      const [a, b] = short.instances.map(instance => new Instance(instance)) as [Instance, Instance];
      const thread = newThread();
      const discarded = { ifIdle: { behavior: 'discard' } } as const;
      expect(await a.send(thread, 'same', discarded)).toMatchObject({ duplicate: false });
      expect(await b.send(thread, 'same', discarded)).toMatchObject({ duplicate: true });
      await until('it is accepted anew', async () => !(await b.send(thread, 'same', discarded)).duplicate);
      await short.close();
    });

    test('S1 to S3: signals that race with runs are all run once, in order, and never left without an owner or a note', async () => {
      await raceSignalsWithRuns(instances);
    });
  });
}
