/** Sets of values that people install with: each has to render to valid manifests, and to settings that the runtime takes. */

import type { Values } from './manifests.ts';

export const withRedis = { redis: { mode: 'standalone', url: 'redis://redis:6379/2' } };

const monitoring = {
  prometheusRule: { enabled: true, labels: { release: 'prometheus' }, extraGroups: [{ name: 'own', rules: [{ alert: 'A', expr: 'vector(1)' }] }] },
  dashboards: { enabled: true, namespace: 'grafana' },
};

const peers = [{ namespaceSelector: { matchLabels: { team: 'agents' } } }];

/** Everything that can be on at the same time. */
export const everything: Values = {
  fullnameOverride: 'conversations',
  commonLabels: { team: 'agents' },
  commonAnnotations: { contact: 'agents@example.com' },
  global: { imageRegistry: 'registry.example.com', imagePullSecrets: ['global-pull'], anything: { of: 'a parent chart' } },
  image: { repository: 'agents/signals-runtime', tag: '1.2.3' },
  imagePullSecrets: [{ name: 'pull' }],
  redis: {
    mode: 'standalone', keyPrefix: 'team:topic',
    auth: { existingSecret: 'redis', urlKey: 'url', usernameKey: 'user', passwordKey: 'password' },
    tls: { enabled: true },
  },
  trustedCa: { existingSecret: 'authorities' },
  auth: { existingSecret: 'tokens' },
  server: { host: '::', logLevel: 'debug', bodyLimitBytes: 2_000_000, maxRuns: 100_000 },
  mailbox: {
    maxEntries: 10, maxBytes: 1_048_576, signalMaxBytes: 65_536, dedupeWindowMs: 60_000, outputMaxChunks: 1_000_000,
    outputRetentionMs: 604_800_000, maxDeliveryAttempts: 3,
  },
  settings: { ttlMs: 600_000, renewIntervalMs: 200_000, driftMs: 10_000, sweepIntervalMs: 500, drainTimeoutMs: 1_000_000 },
  podDeletionCost: { enabled: true },
  drain: { delaySeconds: 10, preStopSleepSeconds: 2 },
  agents: {
    module: { source: 'export async function* shout(run) {\n  yield { type: "text-delta", payload: { text: "{{ not a template }}" } };\n}\n' },
    remote: [{ id: 'writer', url: 'http://writer.agents:8080/run' }, { id: 'reader', url: 'https://reader.example.com/run?a=b' }],
  },
  telemetry: {
    clusterName: 'eu-1', serviceName: 'conversations', resourceAttributes: { 'team.name': 'agents, and others', 'deployment.environment.name': 'test' },
    otlp: { endpoint: 'http://collector.observability:4318', headers: { existingSecret: 'otlp' } },
    traces: { sampler: 'parentbased_traceidratio', samplerArg: 0.25, hashIds: true, renewals: 0, runs: 'link', promptLimitMs: 1000 },
  },
  metrics: { ...monitoring, serviceMonitor: { enabled: true, labels: { release: 'prometheus' }, relabelings: [{ action: 'labeldrop', regex: 'pod_ip' }] } },
  service: {
    type: 'LoadBalancer', port: 80, nodePort: 30_080, annotations: { a: 'b' }, externalTrafficPolicy: 'Local', trafficDistribution: 'PreferClose',
    loadBalancerSourceRanges: ['10.0.0.0/8'], ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['IPv6', 'IPv4'],
  },
  autoscaling: { enabled: true, targetMemoryUtilization: 80 },
  podDisruptionBudget: { minAvailable: '50%', maxUnavailable: null },
  networkPolicy: { enabled: true, ingress: { from: peers, metricsFrom: peers }, egress: { redisTo: peers, dnsTo: peers } },
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields: [] }] } } },
  nodeSelector: { disk: 'fast' },
  tolerations: [{ key: 'agents', operator: 'Exists' }],
  priorityClassName: 'high', runtimeClassName: 'gvisor', schedulerName: 'other', dnsPolicy: 'Default', dnsConfig: { options: [{ name: 'ndots', value: '1' }] },
  hostAliases: [{ ip: '127.0.0.1', hostnames: ['me'] }],
  podLabels: { app: '{{ .Release.Name }}' },
  podAnnotations: { 'example.com/a': 'b' },
  extraEnv: [{ name: 'OPENAI_API_KEY', valueFrom: { secretKeyRef: { name: 'openai', key: 'key' } } }],
  extraEnvFrom: [{ secretRef: { name: 'more', optional: true } }],
  extraVolumes: [{ name: 'scratch', emptyDir: {} }],
  extraVolumeMounts: [{ name: 'scratch', mountPath: '/scratch' }],
  extraContainers: [
    {
      name: 'sidecar', image: 'sidecar:1',
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    },
  ],
  extraObjects: [
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: '{{ .Release.Name }}-object' }, data: {} },
    'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include "signals-runtime.fullname" . }}-text\n',
  ],
};

export const matrix: Readonly<Record<string, Values>> = {
  defaults: {},
  'with Redis': withRedis,
  everything,
  'everything off': {
    ...withRedis,
    settings: { source: 'mount', tuning: { enabled: false } },
    events: { enabled: false }, podDisruptionBudget: { enabled: false }, topologySpread: { enabled: false }, serviceAccount: { create: false },
    resources: { requests: null, limits: null }, tests: { enabled: false }, replicaCount: 0,
  },
  'settings as mounted directories': { ...withRedis, settings: { source: 'mount' } },
  'a tuning ConfigMap of somebody else': { ...withRedis, settings: { tuning: { create: false, name: 'ours' } } },
  Sentinel: {
    redis: {
      mode: 'sentinel', sentinel: { name: 'primary', nodes: ['sentinel-0.redis:26379', '[fd00::1]:26380'] },
      auth: { username: 'agents', password: 'p,a:s@s/ \'"', sentinelPassword: 'other' },
    },
    networkPolicy: { enabled: true },
  },
  Cluster: { redis: { mode: 'cluster', cluster: { nodes: ['a:7000', 'b:7001'] }, tls: { enabled: true } }, networkPolicy: { enabled: true } },
  "a backend of one's own": { backend: { module: '/backends/own.mjs' }, replicaCount: 2 },
  KEDA: {
    ...withRedis,
    keda: {
      enabled: true, fallback: { failureThreshold: 3, replicas: 5 }, annotations: { a: 'b' },
      triggers: [{ type: 'prometheus', metadata: { serverAddress: 'http://prometheus:9090', query: 'sum(signals_run_active)', threshold: '50' } }],
    },
  },
  'a PodMonitor': { ...withRedis, metrics: { ...monitoring, podMonitor: { enabled: true } } },
  'a module from a ConfigMap': { ...withRedis, agents: { module: { existingConfigMap: 'agents', file: 'main.ts' } } },
  'a module from an image': { ...withRedis, agents: { module: { image: { reference: 'registry/agents@sha256:00' }, file: 'dist/agents.mjs' } } },
  "a module in the runtime's image": { ...withRedis, image: { digest: `sha256:${'0'.repeat(64)}` }, agents: { module: { path: '/agents/index.mjs' } } },
  'tokens as values': { auth: { tokens: ['abc', 'd+/=~'] }, trustedCa: { existingConfigMap: 'authorities', key: 'root.pem' } },
  'without a NetworkPolicy for what goes out': { ...withRedis, networkPolicy: { enabled: true, egress: { enabled: false } } },
  "the cluster's own spread": {
    ...withRedis, replicaCount: 5, updateStrategy: { rollingUpdate: { maxUnavailable: '25%' } },
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: 'rack', whenUnsatisfiable: 'DoNotSchedule', labelSelector: { matchLabels: { 'app.kubernetes.io/instance': '{{ .Release.Name }}' } } },
    ],
  },
  "OpenShift's own users": { ...withRedis, podSecurityContext: { runAsUser: null, runAsGroup: null, fsGroup: null } },
};
