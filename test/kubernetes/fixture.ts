/** A namespace with what the chart makes for the runtime: a ServiceAccount, a Role by names, a pod object, two ConfigMaps. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { ApiAnswer, KubeApiserver } from '../support/kube-apiserver.ts';

/** What each feature needs, and no more. The README of src/kubernetes lists the same. */
export const rules = {
  settings: { apiGroups: [''], resources: ['configmaps'], resourceNames: ['signals', 'signals-tuning'], verbs: ['get', 'list', 'watch'] },
  events: { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
  deletionCost: { apiGroups: [''], resources: ['pods'], verbs: ['patch'] },
} as const;

export class Namespace {
  readonly name: string;
  readonly #server: KubeApiserver;
  readonly #directory = mkdtempSync(join(tmpdir(), 'signals-kube-pod-'));

  constructor(server: KubeApiserver, name: string) {
    this.#server = server;
    this.name = name;
  }

  get kubeconfig(): string {
    return join(this.#directory, 'config');
  }

  async create(allowed: readonly object[]): Promise<void> {
    const { name } = this;
    const server = this.#server;
    await server.must('POST', '/api/v1/namespaces', { metadata: { name } });
    await server.must('POST', `/api/v1/namespaces/${name}/serviceaccounts`, { metadata: { name: 'signals' } });
    await server.must('POST', `${this.#rbac}/roles`, { metadata: { name: 'signals' }, rules: allowed });
    await server.must('POST', `${this.#rbac}/rolebindings`, {
      metadata: { name: 'signals' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'signals' },
      subjects: [{ kind: 'ServiceAccount', name: 'signals', namespace: name }],
    });
    await this.rotateToken();
    server.writeKubeconfig(this.kubeconfig, join(this.#directory, 'token'));
  }

  async allow(allowed: readonly object[]): Promise<void> {
    await this.#server.must('PATCH', `${this.#rbac}/roles/signals`, { rules: allowed });
  }

  /** As kubelet does before the old one expires. */
  async rotateToken(): Promise<void> {
    writeFileSync(join(this.#directory, 'token'), await this.#server.tokenOf(this.name, 'signals'));
  }

  /** Answers its UID. */
  async createPod(name: string): Promise<string> {
    const pod = await this.#server.must('POST', `/api/v1/namespaces/${this.name}/pods`, {
      metadata: { name },
      spec: { containers: [{ name: 'runtime', image: 'none.example/none' }] },
    });
    return (pod['metadata'] as { uid: string }).uid;
  }

  async annotationsOf(pod: string): Promise<Record<string, string>> {
    const { metadata } = await this.#server.must('GET', `/api/v1/namespaces/${this.name}/pods/${pod}`);
    return (metadata as { annotations?: Record<string, string> }).annotations ?? {};
  }

  /** `undefined` deletes; an edit replaces all values, as `kubectl replace` does. */
  async edit(configMap: string, data: Record<string, string> | undefined): Promise<void> {
    const path = `/api/v1/namespaces/${this.name}/configmaps`;
    if (!data) {
      await this.#server.must('DELETE', `${path}/${configMap}`);
      return;
    }
    const object = { metadata: { name: configMap }, data };
    const created: ApiAnswer = await this.#server.ask('POST', path, object);
    if (created.status === 409) await this.#server.must('PUT', `${path}/${configMap}`, object);
    else if (created.status >= 300) throw new Error(`${configMap}: ${created.status} ${JSON.stringify(created.body)}`);
  }

  async events(): Promise<Record<string, unknown>[]> {
    const { items } = await this.#server.must('GET', `/apis/events.k8s.io/v1/namespaces/${this.name}/events`);
    return items as Record<string, unknown>[];
  }

  async reasons(): Promise<string[]> {
    return (await this.events()).map(event => String(event['reason']));
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  get #rbac(): string {
    return `/apis/rbac.authorization.k8s.io/v1/namespaces/${this.name}`;
  }
}
