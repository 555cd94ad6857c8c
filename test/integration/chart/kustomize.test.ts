import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';

import { kubernetesTools } from '../../support/helm.ts';
import { deployment, documentsOf, environmentOf, one, render, restrictedViolations, runtimeContainer, schemaChecker } from './manifests.ts';
import type { Manifest, Values } from './manifests.ts';

const directory = join(import.meta.dirname, '..', '..', '..', 'deploy', 'kustomize');

const build = (path: string) =>
  documentsOf(execFileSync(kubernetesTools().kubectl, ['kustomize', join(directory, path)], { encoding: 'utf8' }));

/** Without what only Helm needs. */
function withoutHelm({ metadata, ...rest }: Manifest): Manifest {
  const { labels = {}, ...kept } = metadata;
  const left = Object.entries(labels).filter(([name]) => name !== 'helm.sh/chart' && name !== 'app.kubernetes.io/managed-by');
  const { apiVersion, kind, ...fields } = rest;
  return { apiVersion, kind, metadata: { ...kept, labels: Object.fromEntries(left) }, ...fields };
}

test('the base is the chart', async () => {
  const values = parse(readFileSync(join(directory, 'values.yaml'), 'utf8')) as Values;
  const documents = render(values, { release: 'signals-runtime' }).map(manifest => stringify(withoutHelm(manifest), { aliasDuplicateObjects: false }));
  const header = '# Rendered from the chart (see ../README.md). Not for editing.\n';
  await expect(header + documents.join('---\n')).toMatchFileSnapshot(join(directory, 'base', 'runtime.yaml'));
});

test.each([
  ['base', 'agents'],
  ['overlays/example', 'conversations'],
])('%s is valid, and all of it in one namespace', (path, namespace) => {
  const manifests = build(path);
  expect(manifests.flatMap(schemaChecker())).toEqual([]);
  expect(new Set(manifests.map(({ metadata }) => metadata.namespace))).toEqual(new Set([namespace]));
  expect(one(manifests, 'RoleBinding')['subjects']).toEqual([{ kind: 'ServiceAccount', name: 'signals-runtime', namespace }]);
  expect(restrictedViolations(deployment(manifests).template.spec)).toEqual([]);
});

test('what the example changes arrives', () => {
  const manifests = build('overlays/example');
  const container = runtimeContainer(manifests);
  expect(deployment(manifests).replicas).toBe(5);
  expect(container.image).toBe('registry.example.com/agents/signals-runtime:0.1.0');
  expect(environmentOf(container)).toMatchObject({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector.observability:4318' });
  const secret = one(manifests, 'Secret').metadata.name;
  expect(container.env).toContainEqual({ name: 'REDIS_URL', valueFrom: { secretKeyRef: { name: secret, key: 'url' } } });
  expect(one(manifests, 'ConfigMap', 'signals-runtime-settings')['data']).toMatchObject({ MASTRA_AGENT_THREAD_LEASE_TTL_MS: '20000' });
});
