/** Follows the pods of a release from beginning to end: how often their containers were restarted, and how each ended. */

import { KubeConfig, Watch } from '@kubernetes/client-node';
import { inject } from 'vitest';

import type { Pod } from './kube-types.ts';

export interface PodLife {
  readonly name: string;
  readonly restarts: number;
  /** Exit codes of its containers, the last of each life that was seen. */
  readonly exits: ReadonlySet<number>;
}

export class PodWatch {
  readonly #lives = new Map<string, { restarts: number; exits: Set<number> }>();
  readonly #abort: AbortController;
  #ended: unknown;

  private constructor(abort: AbortController) {
    this.#abort = abort;
  }

  static async start(namespace: string, labelSelector: string): Promise<PodWatch> {
    const config = new KubeConfig();
    config.loadFromFile(inject('cluster').kubeconfig);
    const path = `/api/v1/namespaces/${namespace}/pods`;
    const see = (phase: string, pod: Pod) => {
      if (phase === 'ERROR') watch.#ended = JSON.stringify(pod);
      else if (phase !== 'BOOKMARK') watch.#see(pod);
    };
    const watch: PodWatch = new PodWatch(
      await new Watch(config).watch(path, { labelSelector }, see, error => (watch.#ended = error ?? 'the watch ended')),
    );
    return watch;
  }

  /** Throws when something may have been missed. */
  lives(): PodLife[] {
    if (this.#ended !== undefined && !this.#abort.signal.aborted) throw new Error(`pods were not watched to the end: ${String(this.#ended)}`);
    return [...this.#lives].map(([name, life]) => ({ name, ...life }));
  }

  stop(): void {
    this.#abort.abort();
  }

  #see({ metadata, status }: Pod): void {
    const life = this.#lives.get(metadata.name) ?? { restarts: 0, exits: new Set() };
    this.#lives.set(metadata.name, life);
    for (const { restartCount, state, lastState } of status.containerStatuses ?? []) {
      life.restarts = Math.max(life.restarts, restartCount);
      for (const ended of [state.terminated, lastState?.terminated]) if (ended) life.exits.add(ended.exitCode);
    }
  }
}
