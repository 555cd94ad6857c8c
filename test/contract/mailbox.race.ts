/** Signals from two instances racing with runs that end, hand on, give up or are never settled. */

import * as fc from 'fast-check';
import { expect } from 'vitest';

import { threadName } from '../../src/contracts/thread.ts';
import type { ThreadRef } from '../../src/contracts/thread.ts';
import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { newThread } from './mailbox.harness.ts';
import type { Instance } from './mailbox.harness.ts';

interface Step {
  readonly sender: number;
  /** Whether the sender may take the thread. */
  readonly mayRun: boolean;
  readonly turn: 'current' | 'next';
  /** Turns of the event loop before it is sent. */
  readonly pause: number;
}

interface Plan {
  readonly senders: readonly (readonly Step[])[];
  /** For each settle: go on with what waits, or leave it to others. */
  readonly goesOn: readonly boolean[];
  /** Whether a run reads what comes while it is on. */
  readonly joins: readonly boolean[];
}

const step = fc.record({
  sender: fc.nat({ max: 1 }),
  mayRun: fc.boolean(),
  turn: fc.constantFrom<'current' | 'next'>('current', 'current', 'next'),
  pause: fc.nat({ max: 4 }),
});

const plan: fc.Arbitrary<Plan> = fc.record({
  senders: fc.array(fc.array(step, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 4 }),
  goesOn: fc.array(fc.boolean(), { minLength: 1, maxLength: 8 }),
  joins: fc.array(fc.boolean(), { minLength: 1, maxLength: 8 }),
});

export async function raceSignalsWithRuns(instances: readonly Instance[]): Promise<void> {
  await fc.assert(
    fc.asyncProperty(plan, async given => {
      await new Race(instances, given).run();
    }),
    { numRuns: 40, seed: 20_261_130, endOnFailure: true },
  );
}

class Race {
  readonly #instances: readonly Instance[];
  readonly #plan: Plan;
  readonly #thread: ThreadRef = newThread();
  readonly #accepted: string[] = [];
  readonly #ran: string[] = [];
  readonly #tokens: number[] = [];
  #on = 0;
  #settles = 0;

  constructor(instances: readonly Instance[], plan: Plan) {
    this.#instances = instances;
    this.#plan = plan;
  }

  async run(): Promise<void> {
    await Promise.all(this.#plan.senders.map((steps, at) => this.#send(steps, at)));
    // Everything has come to rest. What waits has no owner now, so it must be noted, and everywhere.
    for (let sweeps = 0; sweeps < 200 && (await this.#isNoted()); sweeps++) {
      const instance = this.#instance(sweeps);
      const grant = await instance.mailbox.claim(this.#thread, instance.claim());
      if (grant) await this.#runAll(instance, grant);
    }
    const state = await this.#instance(0).mailbox.inspect(this.#thread);
    expect(state).toEqual({ thread: this.#thread, waiting: 0 });
    expect([...this.#ran].sort()).toEqual([...this.#accepted].sort());
    this.#expectOrder();
    // Their order is that in which the runs started: one at a time.
    expect(this.#tokens).toEqual([...this.#tokens].sort((x, y) => x - y));
  }

  async #send(steps: readonly Step[], at: number): Promise<void> {
    const runs: Promise<void>[] = [];
    for (const [number, { sender, mayRun, turn, pause }] of steps.entries()) {
      for (let wait = 0; wait < pause; wait++) await new Promise(resolve => setImmediate(resolve));
      const instance = this.#instance(sender);
      const id = `${turn} ${at} ${String(number).padStart(2, '0')}`;
      const delivery = await instance.send(this.#thread, id, { turn, ...(!mayRun && { claim: null }) });
      expect(delivery.duplicate).toBe(false);
      this.#accepted.push(id);
      if (delivery.grant) runs.push(this.#runAll(instance, delivery.grant));
    }
    await Promise.all(runs);
  }

  async #runAll(instance: Instance, first: Grant): Promise<void> {
    for (let grant: Grant | undefined = first; grant; ) {
      this.#on++;
      expect(this.#on).toBe(1); // never two at a time
      this.#tokens.push(grant.fencingToken ?? Number.NaN);
      const consumed = await this.#read(instance, grant);
      this.#on--;
      const next = this.#choose(this.#plan.goesOn) ? instance.claim() : undefined;
      grant = (await instance.mailbox.settle({ thread: this.#thread, grant, consumed, ...(next && { next }) })).grant;
    }
  }

  async #read(instance: Instance, grant: Grant): Promise<string[]> {
    const started = await instance.take(this.#thread, grant);
    const entries = [...started.entries];
    if (this.#choose(this.#plan.joins)) {
      await new Promise(resolve => setImmediate(resolve));
      const joined = await instance.take(this.#thread, grant, { agentId: 'agent', cursor: started.cursor });
      entries.push(...joined.entries);
    }
    for (const entry of entries) this.#ran.push(entry.envelope.signal.id);
    return entries.map(entry => entry.id);
  }

  async #isNoted(): Promise<boolean> {
    const { waiting, owner } = await this.#instance(0).mailbox.inspect(this.#thread);
    if (waiting === 0) return false;
    expect(owner).toBeUndefined();
    const noted = await Promise.all(this.#instances.map(({ mailbox }) => mailbox.due(1000)));
    for (const due of noted) expect(due.map(threadName)).toContain(threadName(this.#thread));
    return true;
  }

  /** One sender's signals are sent one after the other: messages keep their order, and so do queued turns. */
  #expectOrder(): void {
    for (const at of this.#plan.senders.keys()) {
      for (const turn of ['current', 'next']) {
        const ran = this.#ran.filter(id => id.startsWith(`${turn} ${at} `));
        expect(ran).toEqual([...ran].sort());
      }
    }
  }

  #instance(at: number): Instance {
    const instance = this.#instances[at % this.#instances.length];
    if (!instance) throw new Error('no instance');
    return instance;
  }

  #choose(choices: readonly boolean[]): boolean {
    return choices[this.#settles++ % choices.length] ?? false;
  }
}
