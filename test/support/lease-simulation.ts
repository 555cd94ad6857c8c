/**
 * Instances that hold leases, the store that gives them, and a network between them that delays, loses, repeats and
 * reorders, in virtual time. The invariants of `src/leases/README.md` are checked after every step.
 *
 * Instances use the real keeper and the real provider in memory as the store; parts can be replaced by broken ones, to see
 * that the check would notice.
 */

import type { BatchLeaseProvider, HeldKey, LeaseAcquisition } from '../../src/contracts/lease-provider.ts';
import type { Grant } from '../../src/contracts/thread-mailbox.ts';
import { errorMessage, isSignalsError } from '../../src/core/errors.ts';
import { acquire } from '../../src/leases/acquire.ts';
import { LeaseKeeper } from '../../src/leases/lease-keeper.ts';
import type { HeldLease, LeaseKeeperOptions } from '../../src/leases/lease-keeper.ts';
import type { LeaseSettings } from '../../src/leases/settings.ts';
import { LeaseJudge } from './lease-simulation-judge.ts';
import type { Run } from './lease-simulation-judge.ts';
import { SimulatedStore } from './lease-simulation-store.ts';
import { Machine, Random, Schedule } from './lease-simulation-time.ts';

export interface SimulationParts {
  keeper: (options: LeaseKeeperOptions) => { hold(grant: Grant): HeldLease };
  acquire: typeof acquire;
  /** Whether the store checks who writes. */
  fence: boolean;
  /** Whether tokens grow on when a key has vanished. */
  countersSurvive: boolean;
  /** What happens to a run when its lease is given up: it stops first, or goes on a little. */
  stopsBeforeRelease: boolean;
}

export const soundParts: SimulationParts = {
  keeper: options => new LeaseKeeper(options),
  acquire,
  fence: true,
  countersSurvive: true,
  stopsBeforeRelease: true,
};

export interface SimulationOptions {
  seed: number;
  steps: number;
  parts?: Partial<SimulationParts>;
}

const ttls = [1500, 3000, 6000];
const keys = ['a', 'b', 'c', 'd'];
const commandTimeoutMs = 1000;
/** Well within the allowance: 0.5 % of the longest TTL and a step of the server's clock per TTL. */
const largestRateError = 0.005;
const largestServerStepMs = 250;

function settingsFor(ttlMs: number): LeaseSettings {
  return { ttlMs, renewIntervalMs: ttlMs / 3, driftMs: Math.min(ttlMs / 4, ttlMs / 100 + 500) };
}

class Simulation {
  readonly schedule = new Schedule();
  readonly random: Random;
  readonly parts: SimulationParts;
  readonly store: SimulatedStore;
  readonly judge: LeaseJudge;
  readonly instances: Instance[];
  settings = settingsFor(3000);

  constructor(options: SimulationOptions) {
    this.random = new Random(options.seed);
    this.parts = { ...soundParts, ...options.parts };
    this.judge = new LeaseJudge(this.schedule, options.seed);
    const server = new Machine(this.schedule, this.random, largestRateError);
    this.store = new SimulatedStore(server, this.judge, this.parts);
    this.instances = [0, 1, 2].map(at => new Instance(this, `i${at}`, at === 0));
    this.#disturb(() => server.stepWall(this.random.between(-1, 1) * largestServerStepMs), () => 2 * Math.max(...ttls));
    this.#disturb(() => (this.settings = settingsFor(this.random.pick(ttls))), () => this.random.between(5_000, 40_000));
    this.#disturb(() => this.store.breakFor(this.random.pick([50, 800, 3000, 9000]), this.schedule), () =>
      this.random.between(5_000, 60_000));
    this.#disturb(() => void this.store.evict(this.random.pick(keys)), () => this.random.between(5_000, 30_000));
  }

  #disturb(action: () => void, pauseMs: () => number): void {
    this.schedule.in(pauseMs(), () => {
      action();
      this.#disturb(action, pauseMs);
    });
  }

  /** How long one message is on its way; `undefined`: for ever. */
  latencyMs(): number | undefined {
    const kind = this.random.next();
    if (kind < 0.04) return undefined;
    if (kind < 0.8) return this.random.between(0, 4);
    return kind < 0.94 ? this.random.between(4, 120) : this.random.between(120, 7000);
  }
}

/** One process: a keeper, and runs on some keys. */
class Instance implements BatchLeaseProvider {
  readonly #world: Simulation;
  readonly machine: Machine;
  readonly name: string;
  readonly #keeper: { hold(grant: Grant): HeldLease };
  #runs = 0;

  constructor(world: Simulation, name: string, suspends: boolean) {
    this.#world = world;
    this.name = name;
    this.machine = new Machine(world.schedule, world.random, largestRateError);
    this.#keeper = world.parts.keeper({
      provider: this, settings: () => world.settings, clock: this.machine, random: world.random.next,
    });
    for (const key of keys) this.#later(0, 2000, () => void this.#contend(key));
    this.#upset(suspends);
  }

  /** Stops at any time, most often shortly. A wall clock that is also set back would hide a suspension: that is not promised. */
  #upset(suspends: boolean): void {
    const { random, schedule } = this.#world;
    schedule.in(random.between(500, 8000), () => {
      if (random.chance(0.2)) this.machine.stepWall(random.between(suspends ? 0 : -20_000, 20_000));
      else this.machine.stop(random.chance(0.7) ? random.between(1, 300) : random.between(300, 15_000), suspends && random.chance(0.5));
      this.#upset(suspends);
    });
  }

  #later(fromMs: number, toMs: number, action: () => void): void {
    this.machine.after(this.#world.random.between(fromMs, toMs), action);
  }

  async #contend(key: string): Promise<void> {
    const owner = `${this.name}/r${this.#runs++}`;
    await this.#take(key, owner);
    this.#later(20, 1500, () => void this.#contend(key));
  }

  /** Resolves when the run is over. */
  async #take(key: string, owner: string): Promise<void> {
    const { ttlMs, driftMs } = this.#world.settings;
    const { parts, judge } = this.#world;
    const grant = await parts.acquire(this, key, owner, ttlMs, this.machine, driftMs).catch(() => undefined);
    if (!grant) return;
    judge.started(grant);
    try {
      await this.#run(this.#keeper.hold(grant));
    } catch (error) {
      if (!isSignalsError(error, 'SIG_LEASE_EXPIRED')) throw error;
      await this.releaseLease(key, owner).catch(() => {});
    }
  }

  async #run(held: HeldLease): Promise<void> {
    const { judge, random, parts } = this.#world;
    const run = judge.runs(held, this.machine);
    const endsAtMs = this.machine.monotonicMs() + random.between(0, 9000);
    held.signal.addEventListener('abort', () => judge.aborted(run));
    while (this.machine.monotonicMs() < endsAtMs && !held.signal.aborted) {
      await new Promise<void>(resolve => this.#later(5, 250, resolve));
      if (!this.#act(held, run)) break;
    }
    const goesOn = !parts.stopsBeforeRelease && !held.signal.aborted;
    if (goesOn) this.#later(20, 400, () => void this.#act(held, run));
    else judge.stopped(run);
    await this.#giveUp(held);
  }

  #act(held: HeldLease, run: Run): boolean {
    try {
      held.assertHeld();
    } catch {
      return false;
    }
    this.#world.judge.acts(run, this.#world.store.ownerOf(held.grant.key));
    this.#send(() => Promise.resolve(this.#world.store.write(held.grant))).catch(() => {});
    return true;
  }

  async #giveUp(held: HeldLease): Promise<void> {
    const { key, owner } = held.grant;
    const { instances, random, settings } = this.#world;
    const next = random.pick(instances);
    if (held.signal.aborted || random.chance(0.5)) {
      held.drop('released');
      return await this.releaseLease(key, owner).catch(() => {});
    }
    held.drop('transferred');
    const nextOwner = `${next.name}/t${this.#runs++}-${owner.replace('/', '-')}`;
    const moved = await this.transferLease(key, owner, nextOwner, settings.ttlMs).catch(() => false);
    const delayMs = this.#world.latencyMs();
    if (!moved || delayMs === undefined) return;
    this.#world.schedule.in(delayMs, () => next.machine.run(() => void next.#take(key, nextOwner)));
  }

  acquireLease(key: string, owner: string, ttlMs: number): Promise<LeaseAcquisition> {
    return this.#send(() => this.#world.store.acquireLease(key, owner, ttlMs));
  }

  getLeaseOwner(key: string): Promise<string | undefined> {
    return this.#send(() => Promise.resolve(this.#world.store.ownerOf(key)));
  }

  releaseLease(key: string, owner: string): Promise<void> {
    return this.#send(() => this.#world.store.releaseLease(key, owner));
  }

  renewLease(key: string, owner: string, ttlMs: number): Promise<boolean> {
    return this.renewLeases([{ key, owner }], ttlMs).then(([answer]) => answer ?? false);
  }

  renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<boolean[]> {
    const copies = leases.map(({ key, owner }) => ({ key, owner }));
    const asked = this.#send(() => this.#world.store.renewLeases(copies, ttlMs));
    return asked.then(answers => {
      for (const [at, { owner }] of copies.entries()) if (answers[at] === false) this.#world.judge.denied(owner);
      return answers;
    });
  }

  transferLease(key: string, from: string, to: string, ttlMs: number): Promise<boolean> {
    return this.#send(() => this.#world.store.transferLease(key, from, to, ttlMs));
  }

  /** A request that may be late, lost or applied twice, and whose answer may be late or lost. */
  #send<T>(apply: () => Promise<T>): Promise<T> {
    const { schedule, random, store, judge } = this.#world;
    return new Promise<T>((resolve, reject) => {
      const timeout = this.machine.after(commandTimeoutMs, () => reject(new Error('no answer')));
      const answer = (action: () => void) => this.machine.run(() => {
        timeout.cancel();
        action();
      });
      const arrive = (isFirst: boolean) => {
        judge.operations++;
        if (store.broken === 'refuses' && isFirst) answer(() => reject(new Error('refused')));
        if (store.broken) return;
        const backMs = this.#world.latencyMs();
        apply().then(
          value => isFirst && backMs !== undefined && schedule.in(backMs, () => answer(() => resolve(value))),
          error => answer(() => reject(error instanceof Error ? error : new Error(errorMessage(error)))),
        );
      };
      const thereMs = this.#world.latencyMs();
      if (thereMs !== undefined) schedule.in(thereMs, () => arrive(true));
      if (random.chance(0.03)) schedule.in(random.between(0, 9000), () => arrive(false));
    });
  }
}

/** Plays one history; throws a `Violation` that names invariant, seed and time. */
export async function simulate(options: SimulationOptions): Promise<LeaseJudge> {
  const world = new Simulation(options);
  for (let step = 0; step < options.steps; step++) {
    world.schedule.step();
    await settled();
    world.judge.check(world.store);
  }
  return world.judge;
}

/** All promises that this step has resolved have had their say. */
function settled(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve));
}
