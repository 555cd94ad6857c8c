/** Follows the pods of a release from beginning to end: how often their containers were restarted, and how each ended. */

import { KubeConfig, Watch } from '@kubernetes/client-node';
import { inject } from 'vitest';

import { kubectl } from './access.ts';
import type { Pod } from './kube-types.ts';

export interface PodLife {
  readonly name: string;
  readonly restarts: number;
  /** Exit codes of its containers, the last of each life that was seen. */
  readonly exits: ReadonlySet<number>;
}

export class PodWatch {
  readonly #lives = new Map<string, { restarts: number; exits: Set<number> }>();
  readonly #path: string;
  readonly #labelSelector: string;
  readonly #client: Watch;
  /** Of what was seen last: a watch that ends is taken up again from there, so that nothing is missed. */
  #resourceVersion = '';
  #abort: AbortController | undefined;
  #stopped = false;
  #broken: unknown;

  private constructor(path: string, labelSelector: string) {
    const config = new KubeConfig();
    config.loadFromFile(inject('cluster').kubeconfig);
    this.#client = new Watch(config);
    this.#path = path;
    this.#labelSelector = labelSelector;
  }

  static async start(namespace: string, labelSelector: string): Promise<PodWatch> {
    const watch = new PodWatch(`/api/v1/namespaces/${namespace}/pods`, labelSelector);
    const { metadata } = JSON.parse(await kubectl(['get', '--raw', watch.#path])) as { metadata: { resourceVersion: string } };
    watch.#resourceVersion = metadata.resourceVersion;
    await watch.#follow();
    return watch;
  }

  /** Throws when something may have been missed. */
  lives(): PodLife[] {
    if (this.#broken !== undefined) throw new Error(`pods were not watched to the end: ${JSON.stringify(this.#broken)}`);
    return [...this.#lives].map(([name, life]) => ({ name, ...life }));
  }

  stop(): void {
    this.#stopped = true;
    this.#abort?.abort();
  }

  async #follow(): Promise<void> {
    const query = { labelSelector: this.#labelSelector, resourceVersion: this.#resourceVersion, allowWatchBookmarks: true };
    const again = () => void (this.#stopped || this.#broken !== undefined ? undefined : setTimeout(() => void this.#follow(), 100).unref());
    this.#abort = await this.#client.watch(this.#path, query, (phase: string, pod: Pod) => this.#see(phase, pod), again);
  }

  #see(phase: string, pod: Pod): void {
    if (phase === 'ERROR') {
      this.#broken = pod;
      return;
    }
    const { metadata, status } = pod;
    this.#resourceVersion = metadata.resourceVersion;
    if (phase === 'BOOKMARK') return;
    const life = this.#lives.get(metadata.name) ?? { restarts: 0, exits: new Set() };
    this.#lives.set(metadata.name, life);
    for (const { restartCount, state, lastState } of status.containerStatuses ?? []) {
      life.restarts = Math.max(life.restarts, restartCount);
      for (const ended of [state.terminated, lastState?.terminated]) if (ended) life.exits.add(ended.exitCode);
    }
  }
}
