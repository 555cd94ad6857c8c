import { describe, expect, test } from 'vitest';

import { template } from './manifests.ts';
import type { RenderOptions, Values } from './manifests.ts';
import { withRedis } from './values.ts';

/** What is refused, and a part of what is said about it. */
const refused: Readonly<Record<string, readonly [values: Values, said: string, options?: RenderOptions]>> = {
  'several pods without Redis': [{ replicaCount: 3 }, 'replicaCount is 3; with redis.mode embedded 1 is allowed'],
  'an autoscaler without Redis': [{ autoscaling: { enabled: true } }, 'autoscaling and keda need Redis'],
  'an address for another mode': [{ redis: { url: 'redis://r:6379' } }, 'redis.mode is embedded, but the address of standalone is given'],
  'two kinds of address': [
    { redis: { mode: 'standalone', url: 'redis://r:6379', cluster: { nodes: ['a:1'] } } }, 'the address of cluster is given',
  ],
  'an address left empty': [{ redis: { mode: 'standalone' } }, 'redis.url is empty'],
  'an address twice': [
    { redis: { mode: 'standalone', url: 'redis://r:6379', auth: { existingSecret: 's', urlKey: 'url' } } }, 'redis.url and redis.auth.urlKey are both set',
  ],
  'a password that everybody can read': [
    { redis: { mode: 'standalone', url: 'redis://:secret@r:6379' } }, 'redis.url holds a login',
  ],
  'an address that is none': [{ redis: { mode: 'standalone', url: 'localhost:6379' } }, '/redis/url'],
  'Sentinel without the name of the primary': [{ redis: { mode: 'sentinel', sentinel: { nodes: ['a:26379'] } } }, 'redis.sentinel.name'],
  'a Sentinel without a port': [{ redis: { mode: 'sentinel', sentinel: { name: 'p', nodes: ['a'] } } }, '/redis/sentinel/nodes/0'],
  'a password for Sentinel without Sentinel': [
    { redis: { ...withRedis.redis, auth: { sentinelPassword: 'x' } } }, 'a password for Sentinel is given, and redis.mode is standalone',
  ],
  'a Cluster without nodes': [{ redis: { mode: 'cluster' } }, 'redis.mode cluster needs redis.cluster.nodes'],
  'a Secret and a password': [
    { redis: { ...withRedis.redis, auth: { existingSecret: 's', password: 'p' } } }, 'redis.auth.existingSecret and values of redis.auth',
  ],
  'a password and no Redis': [{ redis: { auth: { password: 'p' } } }, 'redis.mode is embedded, but redis.auth'],
  'a backend of one\'s own beside a Redis': [
    { ...withRedis, backend: { module: './own.mjs' } }, 'backend.module is set beside redis.mode standalone',
  ],
  'HPA and KEDA': [
    { ...withRedis, autoscaling: { enabled: true }, keda: { enabled: true, triggers: [{ type: 'cpu' }] } }, 'autoscaling.enabled and keda.enabled are both true',
  ],
  'KEDA without a trigger': [{ ...withRedis, keda: { enabled: true } }, 'keda.triggers is empty'],
  'KEDA down to nothing': [
    { ...withRedis, keda: { enabled: true, minReplicaCount: 0, triggers: [{ type: 'cpu' }] } }, 'keda.minReplicaCount is 0',
  ],
  'an autoscaler with more pods at least than at most': [
    { ...withRedis, autoscaling: { enabled: true, minReplicas: 5, maxReplicas: 4 } }, 'autoscaling.minReplicas is 5',
  ],
  'an autoscaler without a metric': [{ ...withRedis, autoscaling: { enabled: true, targetCPUUtilization: null } }, 'autoscaling has no metric'],
  'a share of a request that is not there': [
    { ...withRedis, autoscaling: { enabled: true }, resources: { requests: { cpu: null } } }, 'resources.requests.cpu is not set',
  ],
  'a budget that lets no pod go': [
    { ...withRedis, podDisruptionBudget: { minAvailable: 3, maxUnavailable: null } }, 'podDisruptionBudget.minAvailable is 3 of 3 pods',
  ],
  'a budget of none': [{ ...withRedis, podDisruptionBudget: { maxUnavailable: 0 } }, 'podDisruptionBudget allows no pod to go'],
  'two budgets': [{ ...withRedis, podDisruptionBudget: { minAvailable: 1 } }, 'minAvailable and maxUnavailable are both set'],
  'a rollout that can not go on': [
    { ...withRedis, updateStrategy: { rollingUpdate: { maxSurge: 0 } } }, 'maxUnavailable and maxSurge are both 0',
  ],
  'less time to stop than a drain takes': [
    { terminationGracePeriodSeconds: 47 }, 'terminationGracePeriodSeconds is 47; at least 48 is allowed',
  ],
  'the default grace period with a longer drain': [
    { terminationGracePeriodSeconds: 48, settings: { drainTimeoutMs: 25_001 } }, 'at least 49 is allowed',
  ],
  'renewals too seldom': [{ settings: { renewIntervalMs: 7501 } }, 'settings.renewIntervalMs is 7501; at most half of settings.ttlMs (7500)'],
  'a drift that leaves no time': [{ settings: { driftMs: 3751 } }, 'settings.driftMs is 3751; at most a quarter of settings.ttlMs (3750)'],
  'a TTL out of range': [{ settings: { ttlMs: 999 } }, '/settings/ttlMs'],
  'a TTL as text': [{ settings: { ttlMs: '15s' } }, '/settings/ttlMs'],
  'one ConfigMap for both': [{ settings: { tuning: { name: 'demo-signals-runtime-settings' } } }, "settings.tuning.name is the name of the chart's own"],
  'signals larger than the inbox': [{ mailbox: { maxBytes: 2048, signalMaxBytes: 4096 } }, 'mailbox.signalMaxBytes is more than mailbox.maxBytes'],
  'a sleep before the stop on an old cluster': [
    { drain: { preStopSleepSeconds: 5 } }, 'drain.preStopSleepSeconds needs Kubernetes 1.30', { kubeVersion: '1.29.3' },
  ],
  'a module from an image on an old cluster': [
    { agents: { module: { image: { reference: 'a' } } } }, 'agents.module.image needs Kubernetes 1.33', { kubeVersion: '1.32.9' },
  ],
  'a cluster that is too old': [{}, 'kubeVersion', { kubeVersion: '1.28.0' }],
  'one port for two': [{ server: { metricsPort: 8080 } }, 'server.port and server.metricsPort are both 8080'],
  'two sources of tokens': [{ auth: { existingSecret: 's', tokens: ['a'] } }, 'auth.existingSecret and auth.tokens'],
  'a token with a comma': [{ auth: { tokens: ['a,b'] } }, '/auth/tokens/0'],
  'two sources of authorities': [{ trustedCa: { existingSecret: 'a', existingConfigMap: 'b' } }, 'trustedCa.existingSecret'],
  'rights for every pod of the namespace': [{ serviceAccount: { create: false } }, 'serviceAccount.create is false and serviceAccount.name is empty'],
  'a node port of a Service that has none': [{ service: { nodePort: 30_000 } }, 'service.nodePort is set'],
  'two modules': [{ agents: { module: { source: 'x', path: '/y' } } }, 'agents.module: more than one'],
  'an agent twice': [
    { agents: { remote: [{ id: 'a', url: 'http://a' }, { id: 'a', url: 'http://b' }] } }, 'agents.remote has an id twice: a, a',
  ],
  'an agent that is not behind HTTP': [{ agents: { remote: [{ id: 'a', url: 'ftp://a' }] } }, '/agents/remote/0/url'],
  'two monitors': [
    { metrics: { serviceMonitor: { enabled: true }, podMonitor: { enabled: true } } }, 'every pod would be scraped twice',
  ],
  'a runbook that can not be linked to': [{ metrics: { prometheusRule: { runbookUrl: 'RUNBOOK.md' } } }, '/metrics/prometheusRule/runbookUrl'],
  'rules without a rule': [{ metrics: { prometheusRule: { enabled: true, defaultRules: false } } }, 'there are no rules'],
  'a variable of the chart': [{ extraEnv: [{ name: 'PORT', value: '1' }] }, 'extraEnv has PORT, which the chart sets'],
  'a lease setting that would have no effect': [
    { extraEnv: [{ name: 'MASTRA_AGENT_THREAD_LEASE_TTL_MS', value: '1' }] }, 'which settings would override',
  ],
  'a value that does not exist': [{ replicas: 3 }, "additional properties 'replicas' not allowed"],
  'a value that does not exist, further in': [{ redis: { sentinels: [] } }, "additional properties 'sentinels' not allowed"],
};

describe('refused at render', () => {
  test.each(Object.entries(refused))('%s', (_name, [values, said, options]) => {
    const { ok, stdout, stderr } = template(values, options);
    expect(ok).toBe(false);
    expect(stdout).toBe('');
    expect(stderr).toContain(said);
  });

  test('all that is wrong, at once', () => {
    const { stderr } = template({ replicaCount: 2, terminationGracePeriodSeconds: 1, server: { metricsPort: 8080 } });
    expect(stderr.match(/^- /gm)).toHaveLength(3);
  });
});
