/** A user's day: install, look, use, remove. With nothing chosen, and with everything that fits together (case 47). */

import { MastraClient } from '@mastra/client-js';
import { afterAll, expect, test } from 'vitest';

import { until } from '../../support/until.ts';
import { apply, chart, get, helm, kubectl } from '../access.ts';
import { images } from '../images.ts';
import type { Service } from '../kube-types.ts';
import { network } from '../network.ts';
import { imageValues, leftoversIn, Release, restrictedNamespace, workerValues } from '../release.ts';
import { Traffic } from '../traffic.ts';
import { faultless, judgeTraffic, summaryOf } from '../verdict.ts';

const bare = 'install-defaults';
let full: Release | undefined;

afterAll(async () => {
  await full?.destroy();
  await kubectl(['delete', 'namespace', bare, '--wait=false', '--ignore-not-found']);
});

test('with the defaults: one pod that echoes, its own test passes, and an uninstall leaves nothing', async () => {
  await restrictedNamespace(bare);
  await helm(['install', 'demo', chart, '-n', bare, '--wait', '--timeout', '120s'], { image: imageValues(images.runtime) });
  expect(await helm(['test', 'demo', '-n', bare, '--logs'])).toMatch(/ready, agents: echo/);

  const { spec } = await get<Service>('service', 'demo-signals-runtime', '-n', bare);
  const agent = new MastraClient({ baseUrl: `http://${spec.clusterIP}:8080`, retries: 0 }).getAgent('echo');
  const thread = { resourceId: 'user', threadId: 'thread' };
  const view = await agent.subscribeToThread(thread);
  const types: string[] = [];
  const seen = view.processDataStream({ onChunk: chunk => void types.push((chunk as { type: string }).type) });
  expect(await agent.sendMessage({ message: 'hello', ...thread })).toMatchObject({ accepted: true });
  await until('the answer has come', () => types.includes('finish'));
  await helm(['uninstall', 'demo', '-n', bare, '--wait', '--timeout', '120s']);
  await seen.catch(() => {}); // the pod is gone, and its streams with it
  await until('nothing is left', async () => (await leftoversIn(bare)).length === 0);
});

test('with everything on: three pods in a restricted namespace, each of which is used, and an uninstall leaves nothing', async () => {
  await defineMonitoring();
  const token = 'a-token-of-the-test';
  const headers = { authorization: `Bearer ${token}` };
  full = await Release.install('install-everything', workerValues({
    replicaCount: null,
    autoscaling: { enabled: true, minReplicas: 3 },
    auth: { tokens: [token] },
    networkPolicy: { enabled: true },
    podDeletionCost: { enabled: true },
    drain: { preStopSleepSeconds: 2 },
    metrics: { serviceMonitor: { enabled: true }, prometheusRule: { enabled: true }, dashboards: { enabled: true } },
    // A collector that nobody reaches holds up nothing.
    telemetry: { clusterName: 'test', otlp: { endpoint: `http://${network.node}:4318` } },
    settings: { ttlMs: 10_000 },
  }));
  const pods = await full.readyPods(3);
  expect(await full.test()).toMatch(/ready, agents: worker/);
  expect((await fetch(`${await full.url()}/v1/settings`)).status).toBe(401);

  const traffic = new Traffic({ url: await full.url(), threads: threadNames(30), perSecond: 20, workMs: 50, headers });
  await until('enough was sent', () => traffic.sent > 200, 60_000);
  await traffic.stop();
  const { verdict, notes } = await judgeTraffic(full, traffic);
  expect(summaryOf(verdict)).toEqual(faultless);
  expect(traffic.failures).toEqual([]);
  expect(new Set(notes.map(note => note.pod))).toEqual(new Set(pods.map(({ metadata }) => metadata.name)));
  const cost = 'controller.kubernetes.io/pod-deletion-cost';
  for (const { metadata } of await full.pods()) expect(metadata.annotations).toHaveProperty([cost]);
  const started = (await full.events()).filter(({ reason }) => reason === 'Started').map(event => event.involvedObject.name);
  for (const { metadata } of pods) expect(started).toContain(metadata.name);

  await full.uninstall();
  const { namespace, watch } = full;
  await until('nothing is left', async () => (await leftoversIn(namespace)).length === 0);
  const lives = watch.lives();
  expect(lives).toHaveLength(3);
  for (const life of lives) expect(life).toEqual({ name: life.name, restarts: 0, exits: new Set([0]) });
});

function threadNames(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `thread-${n}`);
}

/** The Prometheus operator's kinds, with room for any content: the operator itself is not there. */
async function defineMonitoring(): Promise<void> {
  const kinds = { ServiceMonitor: 'servicemonitors', PodMonitor: 'podmonitors', PrometheusRule: 'prometheusrules' };
  const group = 'monitoring.coreos.com';
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  await apply(...Object.entries(kinds).map(([kind, plural]) => ({
    apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: `${plural}.${group}` },
    spec: { group, scope: 'Namespaced', names: { kind, plural, singular: kind.toLowerCase() }, versions: [{ name: 'v1', served: true, storage: true, schema }] },
  })));
  for (const plural of Object.values(kinds)) await kubectl(['wait', '--for=condition=Established', `crd/${plural}.${group}`, '--timeout=60s']);
}
