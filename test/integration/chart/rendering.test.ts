import { beforeAll, describe, expect, test } from 'vitest';

import { parseLeaseSettings } from '../../../src/settings/lease-settings.ts';
import { parseProcessSettings } from '../../../src/settings/process-settings.ts';
import { kubernetesTools, runHelm } from '../../support/helm.ts';
import type { HelmMajor } from '../../support/helm.ts';
import { all, chart, deployment, environmentOf, render, restrictedViolations, runtimeContainer, schemaChecker, template } from './manifests.ts';
import type { Manifest, PodSpec } from './manifests.ts';
import { everything, matrix, withRedis } from './values.ts';

const majors: readonly HelmMajor[] = [3, 4];
const violations = schemaChecker();
const cases = Object.entries(matrix);

test('the schemas know each field: one that does not exist is found', () => {
  const [service] = all(render(withRedis), 'Service');
  expect(violations(service as Manifest)).toEqual([]);
  expect(violations({ ...(service as Manifest), spec: { selektor: {} } })).toEqual([
    'v1 Service demo-signals-runtime-headless/spec must NOT have additional properties {"additionalProperty":"selektor"}',
  ]);
  expect(violations({ apiVersion: 'v1', kind: 'Serwice', metadata: { name: 'x' } })).toEqual(['there is no schema for v1 Serwice']);
});

describe.each(majors)('Helm %i', major => {
  test('is what it says', () => {
    expect(runHelm(['version', '--short'], { major }).stdout, kubernetesTools(major).helm).toMatch(new RegExp(`^v${major}\\.`));
  });

  test('finds nothing to complain about', () => {
    for (const values of [{}, withRedis, everything]) {
      const { ok, stdout, stderr } = runHelm(['lint', '--strict', chart, '--values', '-'], { major, input: JSON.stringify(values) });
      expect(ok, stdout + stderr).toBe(true);
    }
  });
});

describe.each(cases)('%s', (name, values) => {
  let manifests: Manifest[] = [];
  beforeAll(() => {
    manifests = render(values);
  });

  test('is rendered to valid manifests', () => {
    expect(manifests.flatMap(violations)).toEqual([]);
    const names = manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? 'agents'}/${metadata.name}`);
    expect(names).toEqual([...new Set(names)]);
  });

  test('is the same with Helm 3', () => {
    expect(sorted(render(values, { major: 3 }))).toEqual(sorted(manifests));
  });

  test('has settings that the runtime takes', () => {
    const container = runtimeContainer(manifests);
    const environment = environmentOf(container, { REDIS_URL: 'rediss://redis:6380', AUTH_TOKENS: 'a,b' });
    const settings = parseProcessSettings(environment, 'demo-0');
    expect(settings.port).toBe(container.ports?.find(port => port.name === 'http')?.containerPort);
    expect(settings.metricsPort).toBe(container.ports?.find(port => port.name === 'metrics')?.containerPort);
    expect(settings.redis === undefined).toBe(!('redis' in values));
    const chartSettings = all(manifests, 'ConfigMap').find(({ metadata }) => metadata.name.endsWith('-settings'));
    expect(parseLeaseSettings(chartSettings?.['data'] as Record<string, string>, settings)).toMatchObject({ ok: true });
  });

  test.skipIf(name === 'a module from an image')('is let into a restricted namespace', () => {
    const pods = [deployment(manifests).template.spec, ...all(manifests, 'Pod').map(pod => pod['spec'] as PodSpec)];
    for (const pod of pods) {
      expect(restrictedViolations(pod)).toEqual([]);
      expect(pod.enableServiceLinks).toBe(false);
      expect(pod.containers.find(container => container.name !== 'sidecar')?.securityContext?.['readOnlyRootFilesystem']).toBe(true);
    }
  });
});

test('names stay within their limits for the longest release', () => {
  const manifests = render({ ...everything, fullnameOverride: '' }, { release: 'r'.repeat(53) });
  expect(manifests.flatMap(violations)).toEqual([]);
  for (const { metadata } of manifests) expect(metadata.name.length).toBeLessThanOrEqual(75);
  for (const { metadata } of all(manifests, 'Service')) expect(metadata.name.length).toBeLessThanOrEqual(63);
});

test('a parent chart may pass what is its own', () => {
  expect(template({ enabled: true, global: { storageClass: 'fast', deep: { er: 1 } } }).stderr).toBe('');
});

test('the defaults are what they were', async () => {
  await expect(template({}).stdout).toMatchFileSnapshot('snapshots/defaults.yaml');
  await expect(template(withRedis).stdout).toMatchFileSnapshot('snapshots/with-redis.yaml');
});

function sorted(manifests: readonly Manifest[]): Manifest[] {
  const key = ({ kind, metadata }: Manifest) => `${kind} ${metadata.name}`;
  return manifests.toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
}
