/** A provider whose answers a test decides, one by one. */

import type { BatchLeaseProvider, HeldKey } from '../../src/contracts/lease-provider.ts';

type Answer = boolean | Error;

export interface AskedRenewal {
  readonly leases: readonly HeldKey[];
  readonly ttlMs: number;
  readonly atMs: number;
  answer(answer: Answer | Answer[]): void;
  fail(error: Error): void;
}

export class ScriptedLeases implements BatchLeaseProvider {
  readonly asked: AskedRenewal[] = [];
  /** Answers at once as long as it is set; else requests wait for `answer` or `fail`. */
  always: Answer | undefined;
  readonly #nowMs: () => number;

  constructor(nowMs: () => number, always?: Answer) {
    this.#nowMs = nowMs;
    this.always = always;
  }

  renewLeases(leases: readonly HeldKey[], ttlMs: number): Promise<Answer[]> {
    return new Promise((resolve, reject) => {
      const spread = (answer: Answer | Answer[]) => (Array.isArray(answer) ? answer : leases.map(() => answer));
      const asked: AskedRenewal = {
        leases: leases.map(({ key, owner }) => ({ key, owner })),
        ttlMs,
        atMs: this.#nowMs(),
        answer: answer => resolve(spread(answer)),
        fail: reject,
      };
      this.asked.push(asked);
      if (this.always !== undefined) asked.answer(this.always);
    });
  }

  async renewLease(key: string, owner: string, ttlMs: number): Promise<boolean> {
    const [answer] = await this.renewLeases([{ key, owner }], ttlMs);
    if (answer instanceof Error) throw answer;
    return answer ?? false;
  }

  acquireLease(_key: string, owner: string) {
    return Promise.resolve({ acquired: true, owner });
  }

  getLeaseOwner() {
    return Promise.resolve(undefined);
  }

  releaseLease() {
    return Promise.resolve();
  }

  transferLease() {
    return Promise.resolve(true);
  }
}
