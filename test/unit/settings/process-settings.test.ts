import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { isSignalsError } from '../../../src/core/errors.ts';
import { RedisConnector } from '../../../src/redis/connection.ts';
import type { RedisSource } from '../../../src/redis/connection.ts';
import type { SettingValues } from '../../../src/settings/lease-settings.ts';
import { parseProcessSettings } from '../../../src/settings/process-settings.ts';

function refusal(values: SettingValues): string {
  try {
    parseProcessSettings(values, 'machine');
  } catch (error) {
    if (isSignalsError(error, 'SIG_SETTINGS_INVALID')) return error.message;
    throw error;
  }
  throw new Error(`not refused: ${JSON.stringify(values)}`);
}

describe('process settings', () => {
  test('an empty environment is the embedded runtime with the documented defaults', () => {
    expect(parseProcessSettings({}, 'machine')).toEqual({
      host: '0.0.0.0',
      port: 8080,
      metricsPort: 9464,
      redisKeyPrefix: 'mastra:topic',
      redisReplicaAcks: 0,
      instanceName: 'machine',
      logLevel: 'info',
      remoteAgents: [],
      authTokens: [],
      bodyLimitBytes: 1_048_576,
      maxRuns: 1000,
      drainDelayMs: 0,
      mailbox: {
        maxEntries: 1000,
        maxBytes: 16_777_216,
        signalMaxBytes: 262_144,
        dedupeWindowMs: 600_000,
        outputMaxChunks: 10_000,
        outputRetentionMs: 3_600_000,
        maxDeliveryAttempts: 5,
      },
      kubernetes: { sources: {} },
    });
  });

  test('what is left of the time between SIGTERM and SIGKILL bounds the drain; too little of it is refused', () => {
    const limit = (values: SettingValues) => parseProcessSettings(values, 'm').maxDrainTimeoutMs;
    // The last steps of a stop take 13 s at most, and 5 s are kept.
    expect(limit({ TERMINATION_GRACE_MS: '48000', DRAIN_DELAY_MS: '5000' })).toBe(25_000);
    expect(limit({ TERMINATION_GRACE_MS: '18001' })).toBe(1);
    expect(refusal({ TERMINATION_GRACE_MS: '18000' })).toMatch(/^TERMINATION_GRACE_MS must be .* 18001 to 86400000, got "18000"$/);
    expect(limit({})).toBeUndefined();
  });

  test('the name of the instance is its own, the pod’s, the host’s or the machine’s, in that order', () => {
    const name = (values: SettingValues) => parseProcessSettings(values, 'my machine').instanceName;
    expect(name({ INSTANCE_NAME: 'a', POD_NAME: 'b', HOSTNAME: 'c' })).toBe('a');
    expect(name({ POD_NAME: 'b', HOSTNAME: 'c' })).toBe('b');
    expect(name({ HOSTNAME: 'c' })).toBe('c');
    expect(name({})).toBe('my-machine');
  });

  test('lists and agents are read', () => {
    const settings = parseProcessSettings({
      AUTH_TOKENS: 'first, second',
      AGENT_URLS: 'a=http://agents.example:9000/run?x=1, b=https://other.example',
      AGENT_MODULE: '/agents/index.js',
    });
    expect(settings.authTokens).toEqual(['first', 'second']);
    expect(settings.remoteAgents).toEqual([
      { id: 'a', url: 'http://agents.example:9000/run?x=1' },
      { id: 'b', url: 'https://other.example' },
    ]);
    expect(settings.agentModule).toBe('/agents/index.js');
  });

  test.each<[SettingValues, RedisSource, RedisConnector['kind']]>([
    [{ REDIS_URL: 'rediss://u:p@h:6380/2' }, { url: 'rediss://u:p@h:6380/2' }, 'standalone'],
    [
      { REDIS_URL: 'redis://h', REDIS_PASSWORD: 'p', REDIS_TLS: 'true' },
      { url: 'redis://h', redisOptions: { password: 'p', tls: {} } },
      'standalone',
    ],
    [
      { REDIS_SENTINELS: 'a:26379, [::1]:26380', REDIS_SENTINEL_NAME: 'main', REDIS_PASSWORD: 'p', REDIS_SENTINEL_PASSWORD: 's' },
      {
        redisOptions: {
          sentinels: [
            { host: 'a', port: 26_379 },
            { host: '::1', port: 26_380 },
          ],
          name: 'main',
          password: 'p',
          sentinelPassword: 's',
        },
      },
      'sentinel',
    ],
    [
      { REDIS_CLUSTER_NODES: 'a:7000,b:7001', REDIS_USERNAME: 'u', REDIS_PASSWORD: 'p' },
      {
        cluster: {
          nodes: [
            { host: 'a', port: 7000 },
            { host: 'b', port: 7001 },
          ],
          options: { redisOptions: { username: 'u', password: 'p' } },
        },
      },
      'cluster',
    ],
  ])('%j names a Redis that the connector takes', (values, source, kind) => {
    const redis: RedisSource | undefined = parseProcessSettings(values).redis;
    expect(redis).toEqual(source);
    expect(new RedisConnector(redis ?? {}).kind).toBe(kind);
  });

  test('more than one Redis, or half of one, is refused', () => {
    const both = refusal({ REDIS_URL: 'redis://h', REDIS_CLUSTER_NODES: 'a:1' });
    expect(both).toContain('REDIS_URL must be the only one set');
    expect(both).toContain('REDIS_CLUSTER_NODES must be the only one set');
    expect(refusal({ REDIS_SENTINELS: 'a:1' })).toContain('REDIS_SENTINEL_NAME');
    expect(refusal({ REDIS_SENTINEL_NAME: 'main' })).toContain('REDIS_SENTINEL_NAME');
    expect(refusal({ REDIS_PASSWORD: 'p' })).toContain('REDIS_URL must be set when');
  });

  test('Kubernetes is used for what is asked of it, and for nothing else', () => {
    const pod = { POD_NAMESPACE: 'chat', POD_NAME: 'signals-0', POD_UID: 'b2f0-1' };
    const kubernetes = (values: SettingValues) => parseProcessSettings({ ...pod, ...values }).kubernetes;
    const here = { namespace: 'chat', podName: 'signals-0', podUid: 'b2f0-1' };
    expect(kubernetes({})).toEqual({ sources: {} });
    expect(kubernetes({ SETTINGS_CONFIGMAP: 'a', SETTINGS_TUNING_CONFIGMAP: 'a-tuning' })).toEqual({
      sources: {
        chart: { kind: 'config_map', namespace: 'chat', name: 'a' },
        tuning: { kind: 'config_map', namespace: 'chat', name: 'a-tuning' },
      },
    });
    expect(kubernetes({ SETTINGS_DIR: '/settings/chart', SETTINGS_TUNING_CONFIGMAP: 'a' }).sources).toEqual({
      chart: { kind: 'directory', path: '/settings/chart' },
      tuning: { kind: 'config_map', namespace: 'chat', name: 'a' },
    });
    expect(kubernetes({ POD_EVENTS: 'true', POD_DELETION_COST: 'false' })).toEqual({ sources: {}, events: here });
    expect(kubernetes({ POD_DELETION_COST: 'true', POD_UID: undefined })).toEqual({
      sources: {},
      deletionCost: { namespace: 'chat', podName: 'signals-0' },
    });
  });

  test('half of what Kubernetes needs to be told, or twice, is refused', () => {
    expect(refusal({ SETTINGS_CONFIGMAP: 'a', SETTINGS_TUNING_CONFIGMAP: 'b' })).toMatch(/^POD_NAMESPACE must be [^\n]*$/);
    expect(refusal({ POD_EVENTS: 'true', POD_NAMESPACE: 'chat' })).toMatch(/^POD_NAME must be [^\n]*$/);
    const namespace = { POD_NAMESPACE: 'chat' };
    expect(refusal({ ...namespace, SETTINGS_CONFIGMAP: 'a', SETTINGS_TUNING_CONFIGMAP: 'a' })).toContain('another ConfigMap');
    expect(refusal({ ...namespace, SETTINGS_CONFIGMAP: 'a', SETTINGS_DIR: '/a' })).toContain('SETTINGS_DIR must be the only one');
    expect(refusal({ ...namespace, SETTINGS_CONFIGMAP: 'A_b' })).toContain('SETTINGS_CONFIGMAP must be the name');
    expect(refusal({ ...namespace, SETTINGS_CONFIGMAP: '' })).toContain('SETTINGS_CONFIGMAP must be the name');
    expect(refusal({ POD_NAMESPACE: 'a.b', SETTINGS_CONFIGMAP: 'a' })).toContain('POD_NAMESPACE must be the name');
  });

  test.each([
    ['SETTINGS_TUNING_DIR', 'settings', 'the absolute path'],
    ['POD_EVENTS', 'yes', 'true or false'],
    ['POD_DELETION_COST', '1', 'true or false'],
    ['PORT', 'http', 'a whole number, 0 to 65535'],
    ['PORT', '65536', '0 to 65535'],
    ['METRICS_PORT', '', '0 to 65535'],
    ['METRICS_PORT', '8080', 'another port than PORT'],
    ['HOST', 'a b', 'an address'],
    ['REDIS_URL', '', 'redis://host:port'],
    ['REDIS_URL', 'http://h:6379', 'redis://host:port'],
    ['REDIS_URL', 'localhost:6379', 'redis://host:port'],
    ['REDIS_URL', 'redis://h:6379/main', 'redis://host:port'],
    ['REDIS_KEY_PREFIX', 'a{b}', 'without white space and braces'],
    ['REDIS_CLUSTER_NODES', 'a', 'host:port'],
    ['REDIS_CLUSTER_NODES', 'a:0,b:1', 'host:port'],
    ['REDIS_TLS', 'yes', 'true or false'],
    ['LOG_LEVEL', 'loud', 'one of trace, debug'],
    ['INSTANCE_NAME', 'a/b', 'letters, digits'],
    ['AGENT_URLS', 'a', '<agent id>='],
    ['AGENT_URLS', 'a=ftp://h', '<agent id>='],
    ['AGENT_URLS', 'a=http://h,a=http://i', 'each id once'],
    ['AUTH_TOKENS', 'a,,b', 'tokens'],
    ['BODY_LIMIT_BYTES', '1MB', 'a whole number of bytes'],
    ['MAX_RUNS', '0', 'a whole number of runs, 1 to'],
    ['SIGNAL_MAX_BYTES', '20000000', 'at most INBOX_MAX_BYTES'],
    ['MAX_DELIVERY_ATTEMPTS', 'Infinity', 'deliveries'],
  ])('%s of %j stops the start with one line that says what is allowed', (variable, value, allowed) => {
    const message = refusal({ [variable]: value });
    expect(message.split('\n')).toHaveLength(1);
    expect(message.startsWith(`${variable} must be `)).toBe(true);
    expect(message).toContain(allowed);
  });

  test('all that is wrong is said at once, a line each', () => {
    const lines = refusal({ PORT: 'a', LOG_LEVEL: 'b\nc', MAX_RUNS: 'd' }).split('\n');
    expect(lines.map(line => line.split(' ')[0])).toEqual(['PORT', 'LOG_LEVEL', 'MAX_RUNS']);
  });

  test.each([
    ['REDIS_URL', 'http://user:hunter2@h:6379'],
    ['REDIS_URL', 'redis://:hunter2'],
    ['REDIS_URL', 'redis://:p@ss/hunter2@h:99999999'],
    ['REDIS_URL', 'http://h?password=hunter2'],
    ['REDIS_URL', 'http://h#hunter2'],
    ['REDIS_URL', 'hunter2'],
    ['REDIS_URL', 'redis://a b:hunter2@h'],
    ['REDIS_CLUSTER_NODES', 'a:1,redis://:hunter2@b:1'],
    ['REDIS_SENTINELS', 'user:hunter2@b:1'],
    ['AUTH_TOKENS', 'hunter2,,x'],
    ['AUTH_TOKENS', 'hunter2 x'],
    ['AGENT_URLS', 'a=ftp://u:hunter2@h'],
    ['AGENT_URLS', 'u:hunter2@h'],
    ['AGENT_URLS', 'a=ftp://h/?token=hunter2'],
  ])('the secret in %s of %j is not shown', (variable, value) => {
    expect(refusal({ [variable]: value, REDIS_SENTINEL_NAME: undefined })).not.toContain('hunter2');
  });

  test('a wrong address without a secret is shown', () => {
    expect(refusal({ REDIS_URL: 'http://u:hunter2@h.example:6379/0' })).toContain('"http://***@h.example:6379/0"');
  });

  test('no text makes it throw anything but the proper error, with a line for each problem', () => {
    const variables = ['PORT', 'HOST', 'REDIS_URL', 'REDIS_SENTINELS', 'REDIS_CLUSTER_NODES', 'REDIS_TLS', 'INSTANCE_NAME',
      'LOG_LEVEL', 'AGENT_MODULE', 'BACKEND_MODULE', 'AGENT_URLS', 'AUTH_TOKENS', 'MAX_RUNS', 'REDIS_KEY_PREFIX', 'HOSTNAME',
      'SETTINGS_CONFIGMAP', 'SETTINGS_TUNING_CONFIGMAP', 'SETTINGS_DIR', 'POD_EVENTS', 'POD_NAMESPACE', 'POD_NAME', 'POD_UID'];
    const text = fc.oneof(fc.string({ unit: 'binary' }), fc.webUrl(), fc.nat().map(String), fc.constantFrom('redis://h', 'a=http://b', 'true', 'a:1'));
    const values = fc.dictionary(fc.constantFrom(...variables), text);
    fc.assert(
      fc.property(values, given => {
        try {
          const settings = parseProcessSettings(given, 'machine');
          expect(settings.instanceName).toMatch(/^[\w.-]+$/);
          expect(settings.port).toBeLessThanOrEqual(65_535);
        } catch (error) {
          if (!isSignalsError(error, 'SIG_SETTINGS_INVALID')) throw error;
          for (const line of error.message.split('\n')) expect(line).toMatch(/^[A-Z_]+ must be .+, got ".*"$/su);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
