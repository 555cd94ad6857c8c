/** One namespace that enforces `restricted`, with a store, and the chart in it: what most scenarios begin with. */

import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';

import { until } from '../support/until.ts';
import { apply, chart, get, helm, kubectl } from './access.ts';
import { images } from './images.ts';
import { isReady } from './kube-types.ts';
import type { Event, List, Pod, Service } from './kube-types.ts';
import { PodWatch } from './pod-watch.ts';
import { password, secretName, Store } from './store.ts';

/** What is installed is always called the same; namespaces tell scenarios apart. */
const release = 'demo';
const fullName = `${release}-signals-runtime`;
const label = 'app.kubernetes.io/name=signals-runtime,app.kubernetes.io/component!=test';

export const worker = 'worker';

export function imageValues(image: string): object {
  const [repository, tag] = image.split(':');
  return { repository, tag };
}

export async function restrictedNamespace(name: string): Promise<void> {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
}

/** Objects of the release, whatever their kind. Not Events: they are the cluster's record of what was, and go with time. */
export async function leftoversIn(namespace: string): Promise<string[]> {
  const kinds = (await kubectl(['api-resources', '--namespaced', '--verbs=list', '-o', 'name'])).split('\n').filter(Boolean);
  const kept = kinds.filter(kind => !kind.startsWith('events'));
  return (await kubectl(['get', kept.join(','), '-n', namespace, '-o', 'name'])).split('\n').filter(name => name.includes(release));
}

/** Values with the agent of the scenarios and the store of the namespace. */
export function workerValues(more: object = {}): object {
  return {
    image: imageValues(images.runtime),
    redis: { mode: 'standalone', url: 'redis://redis:6379', auth: { existingSecret: secretName } },
    agents: { module: { source: stripTypeScriptTypes(readFileSync(join(import.meta.dirname, 'worker-agent.ts'), 'utf8')) } },
    extraEnv: [{ name: 'NOTES_URL', value: `redis://:${password}@notes:6379` }],
    ...more,
  };
}

/** Of `/v1/settings`. */
export interface SettingsReport {
  readonly effective: Readonly<Record<string, { readonly value: unknown; readonly source: string }>>;
  readonly lastRefusal?: { readonly source: string; readonly problems: readonly string[] };
}

export class Release {
  readonly namespace: string;
  readonly store: Store;
  readonly notes: Store;
  readonly watch: PodWatch;
  readonly tuning = `${fullName}-tuning`;

  private constructor(namespace: string, { store, notes, watch }: { store: Store; notes: Store; watch: PodWatch }) {
    this.namespace = namespace;
    this.store = store;
    this.notes = notes;
    this.watch = watch;
  }

  /** Resolves when all its pods are ready. */
  static async install(namespace: string, values: object): Promise<Release> {
    await restrictedNamespace(namespace);
    await apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: secretName, namespace }, stringData: { password } });
    const [store, notes] = await Promise.all([Store.start(namespace, 'redis'), Store.start(namespace, 'notes')]);
    const watch = await PodWatch.start(namespace, label);
    const made = new Release(namespace, { store, notes, watch });
    await helm(['install', release, chart, '--namespace', namespace, '--wait', '--timeout', '180s'], values);
    return made;
  }

  /** Does not wait for the rollout. */
  async upgrade(values: object): Promise<void> {
    await helm(['upgrade', release, chart, '--namespace', this.namespace], values);
  }

  async rolledOut(): Promise<void> {
    await kubectl(['rollout', 'status', `deployment/${fullName}`, '-n', this.namespace, '--timeout=600s']);
  }

  async scale(replicas: number): Promise<void> {
    await kubectl(['scale', `deployment/${fullName}`, `--replicas=${replicas}`, '-n', this.namespace]);
  }

  async test(): Promise<string> {
    return await helm(['test', release, '--namespace', this.namespace, '--logs']);
  }

  /** The Service, as clients outside of pods reach it. */
  async url(): Promise<string> {
    const { spec } = await get<Service>('service', fullName, '-n', this.namespace);
    return `http://${spec.clusterIP}:8080`;
  }

  /** Also those that are on their way out. */
  async pods(): Promise<readonly Pod[]> {
    return (await get<List<Pod>>('pods', '-n', this.namespace, '-l', label)).items;
  }

  async readyPods(count: number): Promise<readonly Pod[]> {
    let ready: readonly Pod[] = [];
    await until(`${count} pods are ready, and no others there`, async () => {
      const pods = await this.pods();
      ready = pods.filter(isReady);
      return pods.length === count && ready.length === count;
    }, 300_000, 500);
    return ready;
  }

  async editTuning(data: Record<string, string | null>): Promise<void> {
    await kubectl(['patch', 'configmap', this.tuning, '-n', this.namespace, '--type', 'merge', '-p', JSON.stringify({ data })]);
  }

  /** Of one pod, at its own address. */
  async ask(pod: Pod, path: string, headers: Record<string, string> = {}): Promise<string> {
    const port = path === '/metrics' ? 9464 : 8080;
    const response = await fetch(`http://${pod.status.podIP}:${port}${path}`, { headers, signal: AbortSignal.timeout(5000) });
    return await response.text();
  }

  async settingsOf(pod: Pod): Promise<SettingsReport> {
    return JSON.parse(await this.ask(pod, '/v1/settings')) as SettingsReport;
  }

  async events(): Promise<readonly Event[]> {
    return (await get<List<Event>>('events', '-n', this.namespace)).items;
  }

  async uninstall(): Promise<void> {
    await helm(['uninstall', release, '--namespace', this.namespace, '--wait', '--timeout', '180s']);
  }

  /** With everything in it. Does not wait until it is gone. */
  async destroy(): Promise<void> {
    this.watch.stop();
    await kubectl(['delete', 'namespace', this.namespace, '--wait=false']);
  }
}
