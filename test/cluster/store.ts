/**
 * Redis in a namespace: one for the runtime, with its data in the pod, so that it survives the container; and one for the notes of the
 * agents, which nothing ever happens to.
 */

import { until } from '../support/until.ts';
import { apply, get, killContainer, kubectl } from './access.ts';
import { images } from './images.ts';
import type { List, Pod, Service } from './kube-types.ts';

/** Asked for by both. In a Secret of the namespace, as the chart wants it. */
export const password = 'of-the-tests';
export const secretName = 'redis-login';

/** A restart must lose nothing that was acknowledged: what is promised is promised for as long as Redis keeps its data. */
const durable = ['--appendonly', 'yes', '--appendfsync', 'always', '--dir', '/data'];

export class Store {
  readonly #namespace: string;
  readonly #name: string;
  /** From outside of pods: the Service's address. */
  readonly url: string;

  private constructor(namespace: string, name: string, url: string) {
    this.#namespace = namespace;
    this.#name = name;
    this.url = url;
  }

  static async start(namespace: string, name: 'redis' | 'notes'): Promise<Store> {
    await apply(...manifests(namespace, name));
    await kubectl(['rollout', 'status', `deployment/${name}`, '-n', namespace, '--timeout=120s']);
    const { spec } = await get<Service>('service', name, '-n', namespace);
    return new Store(namespace, name, `redis://:${password}@${spec.clusterIP}:6379`);
  }

  /** Its container dies and is started again, with its data. */
  async restart(): Promise<void> {
    const before = await this.#container();
    await killContainer(before?.containerID ?? '');
    await until(`${this.#name} runs again`, async () => {
      const now = await this.#container();
      return now?.containerID !== before?.containerID && now?.ready === true;
    }, 90_000, 200);
  }

  /** Nobody reaches it: its process stands still, connections stay, answers do not come. */
  async pause(): Promise<void> {
    await killContainer((await this.#container())?.containerID ?? '', 'SIGSTOP');
  }

  async resume(): Promise<void> {
    await killContainer((await this.#container())?.containerID ?? '', 'SIGCONT');
  }

  async #container(): Promise<{ containerID?: string; ready?: boolean } | undefined> {
    const { items } = await get<List<Pod>>('pods', '-n', this.#namespace, '-l', `app=${this.#name}`);
    return items[0]?.status.containerStatuses?.[0];
  }
}

function manifests(namespace: string, name: string): object[] {
  const labels = { app: name };
  const securityContext = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } };
  return [
    {
      apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name, namespace },
      spec: {
        selector: { matchLabels: labels },
        strategy: { type: 'Recreate' },
        template: {
          metadata: { labels },
          spec: {
            automountServiceAccountToken: false,
            securityContext: { runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: { type: 'RuntimeDefault' } },
            containers: [{
              name, image: images.base, securityContext,
              command: ['redis-server', '--requirepass', password, '--save', '', ...durable],
              ports: [{ containerPort: 6379 }],
              readinessProbe: { tcpSocket: { port: 6379 }, periodSeconds: 1 },
              volumeMounts: [{ name: 'data', mountPath: '/data' }],
            }],
            volumes: [{ name: 'data', emptyDir: {} }],
          },
        },
      },
    },
    { apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec: { selector: labels, ports: [{ port: 6379 }] } },
  ];
}
