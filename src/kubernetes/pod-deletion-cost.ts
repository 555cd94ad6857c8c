/**
 * Tells Kubernetes which pods to take first when it scales down: those that own few threads. The cost is written on our own pod as
 * the annotation `controller.kubernetes.io/pod-deletion-cost`, seldom and in steps: each write is a change of the pod that every
 * controller hears of.
 */

import type { Clock, Timer } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { ApiError } from './api-client.ts';
import type { ApiClient } from './api-client.ts';
import type { PodIdentity } from './event-recorder.ts';

export interface PodDeletionCostOptions {
  readonly api: ApiClient;
  readonly pod: PodIdentity;
  readonly ownedThreads: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Shortest time between two writes. Default 30000. */
  readonly intervalMs?: number;
}

/** Tried again after that long; for good would be wrong, since an API server that just started may refuse everybody. */
const forbiddenMs = 600_000;

export const deletionCostAnnotation = 'controller.kubernetes.io/pod-deletion-cost';

/** 0, then the largest power of two that is not above the number: twice the threads make a difference, one more does not. */
export function deletionCost(ownedThreads: number): number {
  return ownedThreads < 1 ? 0 : 2 ** Math.min(30, Math.floor(Math.log2(ownedThreads)));
}

export class PodDeletionCost {
  readonly #options: PodDeletionCostOptions;
  readonly #stopping = new AbortController();
  #timer: Timer | undefined;
  #written: number | undefined;
  #failing = false;
  #forbidden = false;

  /** Starts at once: a container that restarted must not keep the cost of its former life. */
  constructor(options: PodDeletionCostOptions) {
    this.#options = options;
    void this.#look();
  }

  stop(): void {
    this.#stopping.abort();
    this.#timer?.cancel();
  }

  async #look(): Promise<void> {
    const cost = deletionCost(this.#options.ownedThreads());
    if (cost !== this.#written) await this.#write(cost);
    if (this.#stopping.signal.aborted) return;
    const delayMs = this.#forbidden ? forbiddenMs : (this.#options.intervalMs ?? 30_000);
    this.#timer = this.#options.clock.after(delayMs, () => void this.#look());
  }

  /** Never rejects. */
  async #write(cost: number): Promise<void> {
    const { api, pod, logger } = this.#options;
    const path = `/api/v1/namespaces/${encodeURIComponent(pod.namespace)}/pods/${encodeURIComponent(pod.podName)}`;
    const body = { metadata: { annotations: { [deletionCostAnnotation]: String(cost) } } };
    try {
      await api.json({ method: 'PATCH', path, body }, this.#stopping.signal);
      this.#written = cost;
      this.#failing = false;
      this.#forbidden = false;
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      if (error instanceof ApiError && error.status === 403) {
        const fields = { error: errorMessage(error), needed: 'patch on pods' };
        if (!this.#forbidden) logger.warn('the cost of deleting this pod is not kept: it may not patch itself', fields);
        this.#forbidden = true;
        return;
      }
      if (!this.#failing) logger.warn('the cost of deleting this pod could not be written', { cost, error: errorMessage(error) });
      this.#failing = true;
    }
  }
}
