import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';

import { alertRules } from '../../../deploy/alerts/generate.ts';
import { parseProcessSettings } from '../../../src/settings/process-settings.ts';
import { graceMarginMs, lastStepsMs } from '../../../src/settings/stop-limits.ts';
import { runHelm } from '../../support/helm.ts';
import { all, chart, deployment, environmentOf, one, render, runtimeContainer } from './manifests.ts';
import type { Manifest, Values } from './manifests.ts';
import { everything, withRedis } from './values.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

const off = { ...withRedis, settings: { source: 'mount' }, events: { enabled: false } };

describe('rights', () => {
  const rulesOf = (values: object) => one(render({ ...withRedis, ...values }), 'Role')['rules'];

  test('are those on two ConfigMaps by name, and on Events', () => {
    expect(rulesOf({})).toEqual([
      {
        apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'],
        resourceNames: ['demo-signals-runtime-settings', 'demo-signals-runtime-tuning'],
      },
      { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
    ]);
  });

  test('follow what is on', () => {
    expect(rulesOf({ settings: { source: 'mount' } })).toHaveLength(1);
    expect(rulesOf({ events: { enabled: false } })).toHaveLength(1);
    expect(rulesOf({ podDeletionCost: { enabled: true } })).toContainEqual({ apiGroups: [''], resources: ['pods'], verbs: ['patch'] });
    expect(rulesOf({ settings: { tuning: { enabled: false } } })).toContainEqual(
      expect.objectContaining({ resourceNames: ['demo-signals-runtime-settings'] }),
    );
  });

  test('are none at all, and no token is mounted, when nothing needs the API server', () => {
    const manifests = render(off);
    expect([...all(manifests, 'Role'), ...all(manifests, 'RoleBinding')]).toEqual([]);
    expect(deployment(manifests).template.spec.automountServiceAccountToken).toBe(false);
    expect(deployment(render(withRedis)).template.spec.automountServiceAccountToken).toBe(true);
    expect(one(render(withRedis), 'ServiceAccount')['automountServiceAccountToken']).toBe(false);
  });
});

describe('the tuning ConfigMap', () => {
  const tuning = (values: object) => one(render({ ...withRedis, ...values }), 'ConfigMap', 'demo-signals-runtime-tuning');

  test('is part of the release and has no data, so that no upgrade has anything to say about it', () => {
    const manifest = tuning({});
    expect(Object.keys(manifest)).toEqual(['apiVersion', 'kind', 'metadata']);
    expect(manifest.metadata.annotations).toBeUndefined();
    expect(JSON.stringify(manifest)).not.toMatch(/0\.1\.0/);
  });

  test('is the same whatever else changes', () => {
    expect(tuning({ settings: { ttlMs: 20_000 }, image: { tag: '2' }, commonLabels: { a: 'b' }, commonAnnotations: { a: 'b' } })).toEqual(tuning({}));
  });

  test('is followed, and may be missing when it is mounted', () => {
    expect(environmentOf(runtimeContainer(render(withRedis)))).toMatchObject({
      SETTINGS_CONFIGMAP: 'demo-signals-runtime-settings', SETTINGS_TUNING_CONFIGMAP: 'demo-signals-runtime-tuning',
    });
    const mounted = render(off);
    const { volumes } = deployment(mounted).template.spec;
    expect(volumes).toContainEqual({ name: 'tuning', configMap: { name: 'demo-signals-runtime-tuning', optional: true } });
    // A file mounted by subPath is never updated.
    expect(runtimeContainer(mounted).volumeMounts?.filter(mount => mount.subPath !== undefined)).toEqual([]);
  });
});

describe('restarts', () => {
  const podOf = (values: object) => deployment(render({ ...withRedis, ...values })).template;
  const before = podOf({});

  test('are not caused by what is followed or belongs to the chart', () => {
    expect(podOf({ settings: { ttlMs: 30_000, sweepIntervalMs: 500 }, server: { logLevel: 'debug' } })).toEqual(before);
    expect(podOf({ metrics: { dashboards: { enabled: true }, prometheusRule: { enabled: true } } })).toEqual(before);
    expect(podOf({ replicaCount: 7, podDisruptionBudget: { enabled: false } })).toEqual(before);
    expect(JSON.stringify(before)).not.toContain('helm.sh/chart');
  });

  test('are caused by what is read once', () => {
    expect(podOf({ redis: { mode: 'standalone', url: 'redis://other:6379' } })).not.toEqual(before);
    const withPassword = (password: string) => podOf({ redis: { ...withRedis.redis, auth: { password } } });
    expect(withPassword('b').metadata.annotations).not.toEqual(withPassword('a').metadata.annotations);
    const withToken = (token: string) => podOf({ auth: { tokens: [token] } });
    expect(withToken('b').metadata.annotations).not.toEqual(withToken('a').metadata.annotations);
    const withModule = (source: string) => podOf({ agents: { module: { source } } });
    expect(withModule('b').metadata.annotations).not.toEqual(withModule('a').metadata.annotations);
  });
});

test('alerts link to their entries in the runbook, once it is known where that is', () => {
  const groupsOf = (values: object) => {
    const rule = one(render({ metrics: { prometheusRule: { enabled: true, ...values } } }), 'PrometheusRule');
    return (rule['spec'] as { groups: unknown }).groups;
  };
  const url = 'https://runbooks.example/signals';
  expect(groupsOf({ runbookUrl: url })).toEqual((parse(alertRules(url)) as { groups: unknown }).groups);
  expect(JSON.stringify(groupsOf({}))).not.toContain('runbook_url');
});

describe('the grace period', () => {
  const graceOf = (values: Values) => deployment(render(values)).template.spec.terminationGracePeriodSeconds;

  test("has room for the drain and for the runtime's own limits of a stop", () => {
    const grace = graceOf({ drain: { delaySeconds: 7, preStopSleepSeconds: 3 }, settings: { drainTimeoutMs: 60_500 } }) ?? 0;
    expect(grace - 7 - 3 - 61).toBe((lastStepsMs + graceMarginMs) / 1000);
  });

  test('is known to the pods: they take the drain that it was computed for, and a longer one only if it is longer', () => {
    const longestDrain = (values: Values) => parseProcessSettings(environmentOf(runtimeContainer(render(values)))).maxDrainTimeoutMs;
    expect(longestDrain({})).toBe(25_000);
    expect(longestDrain({ drain: { delaySeconds: 7, preStopSleepSeconds: 3 }, settings: { drainTimeoutMs: 60_500 } })).toBe(61_000);
    expect(longestDrain({ terminationGracePeriodSeconds: 300 })).toBe(277_000);
  });

  test('can be longer, for a longer drain timeout by hand', () => {
    expect(graceOf({})).toBe(48);
    expect(graceOf({ terminationGracePeriodSeconds: 300 })).toBe(300);
  });
});

describe('Redis', () => {
  const environment = (redis: object) => environmentOf(runtimeContainer(render({ redis })));

  test('passwords are in Secrets only', () => {
    const secret = 'the-secret-text';
    const values = { redis: { mode: 'sentinel', sentinel: { name: 'p', nodes: ['a:1'] }, auth: { password: secret, sentinelPassword: secret } }, auth: { tokens: [secret] } };
    const manifests = render(values);
    expect(JSON.stringify(manifests)).not.toContain(secret);
    expect(one(manifests, 'Secret')['data']).toEqual({
      'auth-tokens': btoa(secret), 'redis-password': btoa(secret), 'redis-sentinel-password': btoa(secret),
    });
  });

  test('each mode has the variables of its own', () => {
    const kinds = ['REDIS_URL', 'REDIS_SENTINELS', 'REDIS_CLUSTER_NODES'];
    const given = (redis: object) => Object.keys(environment(redis)).filter(name => kinds.includes(name));
    expect(given({ mode: 'embedded' })).toEqual([]);
    expect(given(withRedis.redis)).toEqual(['REDIS_URL']);
    expect(given({ mode: 'sentinel', sentinel: { name: 'p', nodes: ['a:1'] } })).toEqual(['REDIS_SENTINELS']);
    expect(given({ mode: 'cluster', cluster: { nodes: ['a:1', 'b:2'] } })).toEqual(['REDIS_CLUSTER_NODES']);
  });
});

describe('pods', () => {
  test('without Redis there is one, replaced before the next', () => {
    expect(deployment(render({}))).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } });
    expect(deployment(render(withRedis))).toMatchObject({ replicas: 3, strategy: { type: 'RollingUpdate' } });
  });

  test('are counted by the autoscaler alone, if there is one', () => {
    const manifests = render({ ...withRedis, replicaCount: 4, autoscaling: { enabled: true } });
    expect(deployment(manifests)).not.toHaveProperty('replicas');
    expect(all(manifests, 'ScaledObject')).toEqual([]);
  });

  test('are not restarted for a Redis that is away: only readiness asks for it', () => {
    const container = JSON.stringify(runtimeContainer(render(withRedis)), ['startupProbe', 'livenessProbe', 'readinessProbe', 'httpGet', 'path']);
    expect(JSON.parse(container)).toEqual({
      startupProbe: { httpGet: { path: '/livez' } }, livenessProbe: { httpGet: { path: '/livez' } }, readinessProbe: { httpGet: { path: '/readyz' } },
    });
  });

  test('of `helm test` get no traffic', () => {
    const manifests = render(withRedis);
    const labels = one(manifests, 'Pod').metadata.labels ?? {};
    for (const service of all(manifests, 'Service')) {
      const { selector } = service['spec'] as { selector: Record<string, string> };
      expect(Object.entries(selector).every(([name, value]) => labels[name] === value)).toBe(false);
    }
  });
});

test('the NetworkPolicy opens the ports that follow from the addresses', () => {
  const { egress } = one(render(everything), 'NetworkPolicy')['spec'] as { egress: { ports: { port: number }[] }[] };
  expect(egress.map(({ ports }) => ports.map(({ port }) => port))).toEqual([[53, 53], [6379], [4318], [8080, 443], [443, 6443]]);
});

test("one monitor finds each pod once: by the headless Service's label, or by the pods' own", () => {
  for (const kind of ['ServiceMonitor', 'PodMonitor']) {
    const name = `${kind[0]?.toLowerCase()}${kind.slice(1)}`;
    const manifests = render({ ...withRedis, metrics: { [name]: { enabled: true } } });
    const { selector } = one(manifests, kind)['spec'] as { selector: { matchLabels: Record<string, string> } };
    const candidates = kind === 'ServiceMonitor' ? all(manifests, 'Service').map(({ metadata }) => metadata) : [deployment(manifests).template.metadata];
    const found = candidates.filter(({ labels = {} }) => Object.entries(selector.matchLabels).every(([key, value]) => labels[key] === value));
    expect(found).toHaveLength(1);
  }
});

describe('copies in the chart', () => {
  test.each([
    ['deploy/alerts', 'files/alerts', '.rules.yaml'],
    ['deploy/dashboards/json', 'files/dashboards', '.json'],
  ])('of %s are up to date', (from, to, ending) => {
    const names = (directory: string) => readdirSync(join(root, directory)).filter(name => name.endsWith(ending));
    const advice = `run: cp ${from}/*${ending} ${chart}/${to}/`;
    expect(names(join(chart, to)), advice).toEqual(names(from));
    for (const name of names(from)) expect(read(join(chart, to, name)) === read(join(from, name)), `${name} differs; ${advice}`).toBe(true);
  });

  test('are what is installed', () => {
    const manifests = render(everything);
    const { groups } = one(manifests, 'PrometheusRule')['spec'] as { groups: unknown[] };
    const shipped = parse(read(`${chart}/files/alerts/signals-runtime.rules.yaml`)) as { groups: unknown[] };
    expect(groups.slice(0, -1)).toEqual(shipped.groups);
    const dashboards = all(manifests, 'ConfigMap').filter(({ metadata }) => metadata.labels?.['grafana_dashboard'] === '1');
    expect(dashboards.length).toBeGreaterThan(0);
    for (const { data } of dashboards as (Manifest & { data: Record<string, string> })[]) {
      const [[name, text] = ['', '']] = Object.entries(data);
      expect(text === read(`${chart}/files/dashboards/${name}`)).toBe(true);
    }
  });
});

test("the README explains each value, with its default, and none that there isn't", () => {
  const leaves = leavesOf(parse(read(`${chart}/values.yaml`)) as object);
  const rows = [...read(`${chart}/README.md`).matchAll(/^\| `([\w.]+)` \| (.*?) \|/gm)].map(([, path = '', shown = '']) => [path, shown] as const);
  expect(rows.map(([path]) => path).toSorted()).toEqual(Object.keys(leaves).toSorted());
  for (const [path, shown] of rows) if (shown.startsWith('`')) expect(parse(shown.slice(1, -1)), path).toEqual(leaves[path]);
});

test('the chart has the version of the package', () => {
  const { appVersion } = parse(read(`${chart}/Chart.yaml`)) as { appVersion: string };
  expect(appVersion).toBe((JSON.parse(read('package.json')) as { version: string }).version);
});

test('the notes say how to look at it, and what is missing', () => {
  const notes = (values: object) => {
    const args = ['install', 'demo', chart, '--dry-run=client', '--namespace', 'agents', '--values', '-'];
    return runHelm(args, { input: JSON.stringify(values) }).stdout.split('\nNOTES:\n')[1] ?? '';
  };
  expect(notes({})).toContain('It runs without Redis');
  expect(notes({})).toContain('Whoever reaches the port may use it');
  expect(notes({ terminationGracePeriodSeconds: 100 })).toContain('a drain timeout of more than 77 s would be cut off');
  expect(notes(everything)).not.toMatch(/without Redis|Whoever|No traces|Nothing is told/);
});

/** Each value by its path; of a structure that is Kubernetes' own, only the whole. */
function leavesOf(value: object, prefix = ''): Record<string, unknown> {
  const entries = Object.entries(value).map(([key, child]: [string, unknown]) => {
    const path = `${prefix}${key}`;
    const nested = typeof child === 'object' && child !== null && !Array.isArray(child) && Object.keys(child).length > 0;
    return nested && !wholes.includes(path) ? leavesOf(child, `${path}.`) : { [path]: child };
  });
  return Object.assign({}, ...entries) as Record<string, unknown>;
}

const wholes = [
  'autoscaling.behavior', 'updateStrategy', 'resources', 'podSecurityContext', 'containerSecurityContext', 'probes.startup', 'probes.liveness',
  'probes.readiness', 'tests.resources', 'metrics.dashboards.labels',
];
