/** The real runtime as a process, against a real API server with RBAC. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { startKubeApiserver } from '../support/kube-apiserver.ts';
import type { KubeApiserver } from '../support/kube-apiserver.ts';
import { startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import { Namespace, rules } from './fixture.ts';

const binary = inject('kubeApiserver');
const TTL = 'MASTRA_AGENT_THREAD_LEASE_TTL_MS';
const DRIFT = 'MASTRA_AGENT_THREAD_LEASE_DRIFT_MS';

interface Report {
  effective: Record<string, { value: number; source: string }>;
  lastRefusal?: { source: string; problems: string[] };
}

let server: KubeApiserver;
let namespace: Namespace;
let pods: RuntimeProcess[];
let count = 0;

async function settingsOf(pod: RuntimeProcess): Promise<Report> {
  const response = await fetch(`${pod.url}/v1/settings`);
  return (await response.json()) as Report;
}

async function ttlOf(pod: RuntimeProcess): Promise<[number | undefined, string | undefined]> {
  const { effective } = await settingsOf(pod);
  return [effective[TTL]?.value, effective[TTL]?.source];
}

async function startPod(name: string, env: Record<string, string> = {}): Promise<RuntimeProcess> {
  const uid = await namespace.createPod(name);
  const pod = await startRuntime({
    name,
    env: {
      KUBECONFIG: namespace.kubeconfig,
      POD_NAMESPACE: namespace.name,
      POD_NAME: name,
      POD_UID: uid,
      SETTINGS_CONFIGMAP: 'signals',
      SETTINGS_TUNING_CONFIGMAP: 'signals-tuning',
      POD_EVENTS: 'true',
      ...env,
    },
  });
  pods.push(pod);
  return pod;
}

const warnings = (pod: RuntimeProcess) => pod.logs().filter(line => line.includes('"level":"warn"'));

describe.skipIf(binary === '')('in a namespace with a Role by names', () => {
  beforeAll(async () => {
    server = await startKubeApiserver(binary);
  }, 180_000);

  afterAll(async () => await server.stop());

  beforeEach(() => {
    namespace = new Namespace(server, `test-${++count}`);
    pods = [];
  });

  afterEach(async () => {
    await Promise.all(pods.map(pod => pod.destroy()));
    namespace.remove();
  });

  test('case 45: what is edited takes effect on every pod; what is wrong does not, and it can be seen why', async () => {
    await namespace.create([rules.settings, rules.events]);
    await namespace.edit('signals', { [TTL]: '20000' });
    await namespace.edit('signals-tuning', {});
    const [a, b] = [await startPod('a'), await startPod('b')];
    expect(await ttlOf(a)).toEqual([20_000, 'chart']); // from the first moment
    await namespace.edit('signals-tuning', { [TTL]: '30000' });
    for (const pod of [a, b]) await until('the edit is in effect', async () => (await ttlOf(pod))[0] === 30_000);

    await namespace.edit('signals-tuning', { [TTL]: 'half a minute' });
    for (const pod of [a, b]) await until('the refusal can be seen', async () => (await settingsOf(pod)).lastRefusal !== undefined);
    expect(await ttlOf(a)).toEqual([30_000, 'tuning']);
    const { lastRefusal } = await settingsOf(a);
    expect(lastRefusal?.source).toBe('tuning');
    expect(lastRefusal?.problems[0]).toMatch(new RegExp(`^${TTL} must be .*got "half a minute"$`));

    const metrics = async (pod: RuntimeProcess) => await (await fetch(`${pod.metricsUrl}/metrics`)).text();
    expect(await metrics(a)).toMatch(/signals_config_reloads_total\{[^}]*outcome="rejected"[^}]*\} 1/);
    expect(await metrics(a)).toMatch(/signals_lease_ttl_seconds\{?[^}]*\}? 30/);

    await until('both pods have told of it', async () => (await namespace.reasons()).filter(reason => reason === 'SettingsRefused').length === 2);
    const refused = (await namespace.events()).find(event => event['reason'] === 'SettingsRefused');
    expect(refused).toMatchObject({ type: 'Warning', reportingController: 'signals-runtime', regarding: { kind: 'Pod' } });
    expect(String(refused?.['note'])).toContain('half a minute');

    await namespace.edit('signals-tuning', { [DRIFT]: '900' });
    await until('the chart’s value counts again', async () => (await ttlOf(b))[1] === 'chart');
    await namespace.edit('signals-tuning', undefined);
    await until('a deletion takes its values away', async () => (await settingsOf(a)).effective[DRIFT]?.source === 'default');
    await namespace.edit('signals-tuning', { [TTL]: '40000' });
    await until('and it may come back', async () => (await ttlOf(a))[0] === 40_000);
    expect(warnings(a)).toEqual([]);
    // Many edits later the Events are still few.
    expect((await namespace.events()).length).toBeLessThanOrEqual(2 * 8);
  });

  test('without permission a pod runs on its environment, and says so once for each', async () => {
    await namespace.create([]);
    await namespace.edit('signals', { [TTL]: '20000' });
    const pod = await startPod('a', { [TTL]: '17000', POD_DELETION_COST: 'true' });
    expect(await ttlOf(pod)).toEqual([17_000, 'environment']);
    await until('all was said', () => warnings(pod).length >= 4);
    const said = warnings(pod).map(line => (JSON.parse(line) as { msg: string }).msg).sort();
    expect(said).toEqual([
      'Events are off: this pod may not send them',
      'settings could not be read from the ConfigMap; those in effect stay',
      'settings could not be read from the ConfigMap; those in effect stay',
      'the cost of deleting this pod is not kept: it may not patch itself',
    ]);
    expect((await fetch(`${pod.url}/readyz`)).status).toBe(200);
    pod.kill('SIGTERM');
    expect(await pod.exited()).toBe(0);
  });

  test('the Role by names allows what is needed and nothing beside it', async () => {
    await namespace.create([rules.settings, rules.events, rules.deletionCost]);
    const review = async (verb: string, group: string, resource: string, name?: string) => {
      const { status } = await server.must('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
        spec: {
          user: `system:serviceaccount:${namespace.name}:signals`,
          resourceAttributes: { namespace: namespace.name, verb, group, resource, ...(name && { name }) },
        },
      });
      return (status as { allowed: boolean }).allowed;
    };
    expect(await review('watch', '', 'configmaps', 'signals')).toBe(true);
    expect(await review('watch', '', 'configmaps')).toBe(false);
    expect(await review('get', '', 'configmaps', 'other')).toBe(false);
    expect(await review('update', '', 'configmaps', 'signals')).toBe(false);
    expect(await review('get', '', 'secrets', 'signals')).toBe(false);
    expect(await review('get', '', 'pods', 'a')).toBe(false);
  });

  test('case 43: the API server stops and comes back: the pod runs on, and edits land again', async () => {
    await namespace.create([rules.settings, rules.events]);
    await namespace.edit('signals', { [TTL]: '20000' });
    const pod = await startPod('a');
    await until('the first is in effect', async () => (await ttlOf(pod))[0] === 20_000);
    await server.kill();
    await until('it is said', () => warnings(pod).some(line => line.includes('could not be read')));
    expect(await ttlOf(pod)).toEqual([20_000, 'chart']);
    expect((await fetch(`${pod.url}/readyz`)).status).toBe(200);
    await server.restart();
    await namespace.rotateToken();
    await namespace.edit('signals', { [TTL]: '21000' });
    await until('the edit lands', async () => (await ttlOf(pod))[0] === 21_000, 60_000);
    await until('it is said', () => pod.logs().some(line => line.includes('read from the ConfigMap again')));
  });

  test('a pod tells of its life: start, Redis away and back, drain; once each', async () => {
    await namespace.create([rules.settings, rules.events]);
    const redis = await startRedis();
    try {
      const pod = await startPod('a', { REDIS_URL: redis.url });
      await until('it started', async () => (await namespace.reasons()).includes('Started'));
      await redis.kill();
      await until('Redis is away', async () => (await namespace.reasons()).includes('StoreUnreachable'));
      await redis.restart();
      await until('Redis is back', async () => (await namespace.reasons()).includes('StoreReachable'));
      pod.kill('SIGTERM');
      expect(await pod.exited()).toBe(0);
      const reasons = await namespace.reasons();
      expect(reasons.sort()).toEqual(['Drained', 'Draining', 'Started', 'StoreReachable', 'StoreUnreachable']);
    } finally {
      await redis.stop();
    }
  });

  test('the cost of deleting a pod is on it', async () => {
    await namespace.create([rules.settings, rules.events, rules.deletionCost]);
    await startPod('a', { POD_DELETION_COST: 'true' });
    await until('it is written', async () => (await namespace.annotationsOf('a'))['controller.kubernetes.io/pod-deletion-cost'] === '0');
  });

  test('an API server that hangs at the end does not hold up the exit', async () => {
    await namespace.create([rules.settings, rules.events]);
    const pod = await startPod('a');
    await until('it started', async () => (await namespace.reasons()).includes('Started'));
    server.pause();
    try {
      pod.kill('SIGTERM');
      expect(await pod.exited()).toBe(0);
    } finally {
      server.resume();
    }
  });
});
