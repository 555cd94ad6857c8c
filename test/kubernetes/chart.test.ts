/** The chart against a real API server: what it accepts, and what becomes of edits by hand. Nothing runs pods there. */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { kubernetesTools, runHelm } from '../support/helm.ts';
import type { HelmMajor } from '../support/helm.ts';
import { startKubeApiserver } from '../support/kube-apiserver.ts';
import type { KubeApiserver } from '../support/kube-apiserver.ts';

const binary = inject('kubeApiserver');
const chart = 'charts/signals-runtime';
const redis = { redis: { mode: 'standalone', url: 'redis://redis:6379' } };

describe.skipIf(binary === '')('on a real API server', () => {
  let server: KubeApiserver;
  let directory = '';
  let kubeconfig = '';

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'signals-chart-'));
    kubeconfig = join(directory, 'kubeconfig');
    server = await startKubeApiserver(binary);
    writeFileSync(kubeconfig, JSON.stringify(await adminConfig(server)));
  }, 180_000);

  afterAll(async () => {
    await server?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const helm = (major: HelmMajor, namespace: string, args: readonly string[], values: object = redis) => {
    const given = args[0] === 'uninstall' ? [] : [chart, '--values', '-'];
    const { ok, stdout, stderr } = runHelm([...args, ...given, '--namespace', namespace], { major, kubeconfig, input: JSON.stringify(values) });
    if (!ok) throw new Error(stderr + stdout);
  };
  const kubectl = (...args: string[]) => execFileSync(kubernetesTools().kubectl, args, { encoding: 'utf8', env: { KUBECONFIG: kubeconfig } });

  async function restrictedNamespace(name: string): Promise<void> {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await server.must('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
  }

  test.each<[string, HelmMajor, HelmMajor]>([
    ['with-3', 3, 3],
    ['with-4', 4, 4],
    ['from-3-to-4', 3, 4],
  ])('an edit of the tuning ConfigMap by hand outlives upgrades %s', async (namespace, first, then) => {
    await restrictedNamespace(namespace);
    helm(first, namespace, ['install', 'demo']);
    const name = 'demo-signals-runtime-tuning';
    const path = `/api/v1/namespaces/${namespace}/configmaps/${name}`;
    expect(await server.must('GET', path)).not.toHaveProperty('data');

    const data = { MASTRA_AGENT_THREAD_LEASE_TTL_MS: '20000' };
    kubectl('patch', 'configmap', name, '-n', namespace, '--type', 'merge', '-p', JSON.stringify({ data }));
    const edited = await server.must('GET', path);
    expect(edited['data']).toEqual(data);

    helm(then, namespace, ['upgrade', 'demo'], { ...redis, settings: { ttlMs: 30_000 }, image: { tag: '2' }, commonLabels: { team: 'a' } });
    helm(then, namespace, ['upgrade', 'demo'], { ...redis, settings: { ttlMs: 10_000 } });
    expect((await server.must('GET', path))['data']).toEqual(data);
    const settings = await server.must('GET', `/api/v1/namespaces/${namespace}/configmaps/demo-signals-runtime-settings`);
    expect(settings['data']).toMatchObject({ MASTRA_AGENT_THREAD_LEASE_TTL_MS: '10000' });

    helm(then, namespace, ['uninstall', 'demo']);
    const kinds = 'deployments,services,configmaps,secrets,serviceaccounts,roles,rolebindings,poddisruptionbudgets,horizontalpodautoscalers,networkpolicies';
    expect(kubectl('get', kinds, '-n', namespace, '-o', 'name')).toBe('');
  });

  test('pods are let into a namespace that enforces `restricted`, with everything on', async () => {
    await restrictedNamespace('strict');
    helm(4, 'strict', ['install', 'demo'], {
      ...redis, auth: { tokens: ['a'] }, autoscaling: { enabled: true }, networkPolicy: { enabled: true }, podDeletionCost: { enabled: true },
      metrics: { dashboards: { enabled: true } }, drain: { preStopSleepSeconds: 2 }, agents: { module: { source: 'export const a = 1' } },
      settings: { source: 'mount' }, trustedCa: { existingSecret: 'authorities' },
    });
    const deployment = await server.must('GET', '/apis/apps/v1/namespaces/strict/deployments/demo-signals-runtime');
    const { template } = deployment['spec'] as { template: { metadata: object; spec: object } };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { ...template.metadata, name: 'demo-0' }, spec: template.spec };
    expect(await server.ask('POST', '/api/v1/namespaces/strict/pods?dryRun=All&fieldValidation=Strict', pod)).toMatchObject({ status: 201 });
    const lax = { ...pod, spec: { ...pod.spec, hostNetwork: true } };
    expect(await server.ask('POST', '/api/v1/namespaces/strict/pods?dryRun=All', lax)).toMatchObject({ status: 403 });
  });
});

/** Not the test's own administrator: Helm and kubectl want a token in the file. */
async function adminConfig(server: KubeApiserver): Promise<object> {
  const metadata = { name: 'installer' };
  await server.must('POST', '/api/v1/namespaces/kube-system/serviceaccounts', { apiVersion: 'v1', kind: 'ServiceAccount', metadata });
  await server.must('POST', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
    apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRoleBinding', metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name: 'installer', namespace: 'kube-system' }],
  });
  return {
    apiVersion: 'v1', kind: 'Config', 'current-context': 'test',
    clusters: [{ name: 'test', cluster: { server: server.url, 'certificate-authority': server.caFile } }],
    users: [{ name: 'installer', user: { token: await server.tokenOf('kube-system', 'installer') } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'installer' } }],
  };
}
