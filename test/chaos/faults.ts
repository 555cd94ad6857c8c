/**
 * Faults at random from a seed: several pods at once, Redis on top, but for a moment always one pod that is left alone.
 * Each fault ends what it began.
 */

import { setTimeout as pause } from 'node:timers/promises';

import { Redis } from 'ioredis';

import { settledWithin } from '../../src/core/waits.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { Fleet, Pod } from './fleet.ts';
import type { Fault } from './history.ts';
import { endKey } from './names.ts';
import type { Random } from './random.ts';

interface FaultContext {
  readonly fleet: Fleet;
  readonly ttlMs: number;
  readonly random: Random;
}

/** Answers when it really began, if that was later; `false` when it could not be carried out. */
type PodFault = (pod: Pod, context: FaultContext) => Promise<number | false | void>;
type StoreFault = (context: FaultContext) => Promise<void>;

/** For a moment, around the TTL, or well past it. */
function sometime({ random, ttlMs }: FaultContext): number {
  return Math.round(ttlMs * random.pick([0.1, 0.5, 0.8, 1.2, 1.7, 2.5]) * (0.8 + 0.4 * random.next()));
}

/** For a run to come along that ends its process. */
const agentLimitMs = 3000;

/** An agent of the pod ends the whole process, as one may. */
async function byAgent(pod: Pod, { fleet, random }: FaultContext, how: 'exit' | 'crash'): Promise<number | false> {
  const downMs = random.between(0, 1500);
  const redis = new Redis(fleet.notes.url);
  try {
    await redis.set(endKey(pod.name), how);
    const ended = await settledWithin(systemClock, agentLimitMs, pod.process.exited());
    if (!ended && (await redis.del(endKey(pod.name))) > 0) return false; // nothing was run there
  } finally {
    redis.disconnect();
  }
  await pod.process.exited();
  const fromMs = Date.now();
  await pause(downMs);
  await pod.start();
  await pod.whenReady();
  return fromMs;
}

async function onLink(pod: Pod, context: FaultContext, fault: () => void): Promise<void> {
  const forMs = sometime(context);
  fault();
  await pause(forMs);
  pod.proxy.restore();
}

const podFaults: Record<string, PodFault> = {
  'SIGKILL': async (pod, { random }) => {
    const downMs = random.between(0, 1500);
    pod.process.kill('SIGKILL');
    await pod.process.exited();
    await pause(downMs);
    await pod.start();
    await pod.whenReady();
  },
  'agent exits': (pod, context) => byAgent(pod, context, 'exit'),
  'agent crashes': (pod, context) => byAgent(pod, context, 'crash'),
  'SIGSTOP': async (pod, { random, ttlMs }) => {
    const forMs = Math.round(ttlMs * (1.1 + random.next()));
    pod.process.kill('SIGSTOP');
    await pause(forMs);
    pod.process.kill('SIGCONT');
  },
  'SIGTERM': async pod => {
    pod.process.kill('SIGTERM');
    // The successor does not wait for the exit, as in a rolling restart.
    const old = pod.process;
    await pod.start();
    if (!(await settledWithin(systemClock, 30_000, old.exited()))) {
      throw new Error(`${pod.name} did not exit within 30 s of SIGTERM:\n${old.logs().slice(-20).join('\n')}`);
    }
    await pod.whenReady();
  },
  'connections refused': (pod, context) => onLink(pod, context, () => pod.proxy.down()),
  'connections reset': async pod => {
    pod.proxy.cut();
    await pause(1);
  },
  'network lost': (pod, context) => onLink(pod, context, () => pod.proxy.blackHole()),
  'network held up': (pod, context) => onLink(pod, context, () => pod.proxy.hold()),
  'replies lost': (pod, context) => onLink(pod, context, () => pod.proxy.dropReplies()),
  'slow network': (pod, context) => onLink(pod, context, () => pod.proxy.delay(context.random.between(50, 700))),
};

const storeFaults: Record<string, StoreFault> = {
  'Redis killed': async ({ fleet, random }) => {
    const downMs = random.between(0, 2500);
    await fleet.redis.kill(random.pick(['SIGKILL', 'SIGTERM']));
    await pause(downMs);
    await fleet.redis.restart();
  },
  'Redis stopped': async context => {
    const forMs = sometime(context);
    context.fleet.redis.pause();
    await pause(forMs);
    context.fleet.redis.resume();
  },
  'Redis slow': async context => {
    const [delayMs, forMs] = [context.random.between(20, 300), sometime(context)];
    for (const { proxy } of context.fleet.pods) proxy.delay(delayMs);
    await pause(forMs);
    for (const { proxy } of context.fleet.pods) proxy.delay(0);
  },
};

export class FaultMaker {
  readonly faults: Fault[] = [];
  readonly #context: FaultContext;
  readonly #onFault: (text: string) => void;
  readonly #hit = new Map<Pod, Promise<void>>();
  #store: Promise<void> | undefined;
  #failure: unknown;

  constructor(context: FaultContext, onFault: (text: string) => void) {
    this.#context = context;
    this.#onFault = onFault;
  }

  /** Makes faults until `signal` aborts, then waits until each has ended. Throws what a fault could not end. */
  async run(signal: AbortSignal): Promise<void> {
    const { random } = this.#context;
    while (!signal.aborted) {
      await pause(random.between(200, 2500), undefined, { signal }).catch(() => {}); // aborted: the loop ends by itself
      if (!signal.aborted) this.#next();
    }
    await Promise.all([...this.#hit.values(), this.#store]);
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** The choice draws the same numbers whether it can be carried out now or not, so that the plan depends on the seed only. */
  #next(): void {
    const { fleet, random } = this.#context;
    const own = random.fork(`fault ${random.between(0, 1e9)}`);
    const context = { ...this.#context, random: own };
    const onStore = random.chance(0.2);
    const [storeFault, podFault] = [random.pick(Object.keys(storeFaults)), random.pick(Object.keys(podFaults))];
    const pod = random.pick(fleet.pods);
    if (onStore) {
      this.#store ??= this.#carryOut(storeFault, undefined, () => storeFaults[storeFault]!(context)).finally(() => (this.#store = undefined));
      return;
    }
    const most = Math.max(1, fleet.pods.length - 1);
    if (this.#hit.has(pod) || this.#hit.size >= most) return;
    const done = this.#carryOut(podFault, pod, () => podFaults[podFault]!(pod, context)).finally(() => this.#hit.delete(pod));
    this.#hit.set(pod, done);
  }

  async #carryOut(kind: string, pod: Pod | undefined, fault: () => Promise<number | false | void>): Promise<void> {
    let fromMs = Date.now();
    this.#onFault(pod ? `${kind} ${pod.name}` : kind);
    try {
      const began = await fault();
      if (began === false) return;
      fromMs = began ?? fromMs;
    } catch (error) {
      this.#failure ??= error;
    }
    this.faults.push({ kind, ...(pod ? { pod: pod.name } : {}), fromMs, toMs: Date.now() });
  }
}
