/**
 * Everything that is set once, when the process starts. A wrong value stops the start: it is better not to run than to
 * run as something else than was meant. Telemetry keeps its standard variables and reads them itself.
 */

import { hostname } from 'node:os';

import type { MailboxLimits } from '../contracts/thread-mailbox.ts';
import { logLevels } from '../core/logger.ts';
import type { LogLevel } from '../core/logger.ts';
import { EnvironmentReader, parseList } from './environment.ts';
import type { TextRule } from './environment.ts';
import { readKubernetes } from './kubernetes-settings.ts';
import type { KubernetesSettings } from './kubernetes-settings.ts';
import type { SettingValues } from './lease-settings.ts';
import { maskAddress } from './problems.ts';
import { readRedisAddress } from './redis-settings.ts';
import type { RedisAddress } from './redis-settings.ts';
import { graceMarginMs, lastStepsMs } from './stop-limits.ts';

export interface RemoteAgent {
  readonly id: string;
  readonly url: string;
}

export interface ProcessSettings {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly metricsPort: number;
  /** Absent: a backend of the user's own, or the embedded one. */
  readonly redis?: RedisAddress;
  /** Path of a module with a PubSub. */
  readonly backendModule?: string;
  readonly redisKeyPrefix: string;
  /** Replicas that must have a signal or a lease before it counts; 0: the primary's word is enough. */
  readonly redisReplicaAcks: number;
  /** The pod. An instance's id is this and a nonce that is made at start. */
  readonly instanceName: string;
  /** Until the lease settings, which have it too and change later. */
  readonly logLevel: LogLevel;
  /** Path of a module with agents. */
  readonly agentModule?: string;
  readonly remoteAgents: readonly RemoteAgent[];
  /** Any of them opens `/api` and `/v1`. Empty: no token is asked for. */
  readonly authTokens: readonly string[];
  readonly bodyLimitBytes: number;
  /** Runs on this instance at the same time; a full instance leaves threads to others. */
  readonly maxRuns: number;
  /** How long a draining instance goes on serving before it stops its listeners. */
  readonly drainDelayMs: number;
  /** The longest drain that ends before SIGKILL, where it is known when that comes. */
  readonly maxDrainTimeoutMs?: number;
  readonly mailbox: MailboxLimits;
  readonly kubernetes: KubernetesSettings;
}

const kib = 1024;
const mib = 1024 * kib;

/**
 * Throws `SIG_SETTINGS_INVALID`; its message has one line for each wrong variable, which names it, what it held (secrets
 * masked) and what is allowed.
 */
export function parseProcessSettings(values: SettingValues, machineName: string = hostname()): ProcessSettings {
  const env = new EnvironmentReader(values);
  const redis = readRedisAddress(env);
  const backendModule = env.optional('BACKEND_MODULE', pathRule);
  const agentModule = env.optional('AGENT_MODULE', pathRule);
  const drainDelayMs = env.number('DRAIN_DELAY_MS', 0, { min: 0, max: 300_000 }, 'milliseconds');
  const maxDrainTimeoutMs = readDrainLimit(env, drainDelayMs);
  const settings: ProcessSettings = {
    host: env.text('HOST', '0.0.0.0', hostRule),
    port: env.number('PORT', 8080, { min: 0, max: 65_535 }),
    metricsPort: env.number('METRICS_PORT', 9464, { min: 0, max: 65_535 }),
    ...(redis && { redis }),
    ...(backendModule !== undefined && { backendModule }),
    redisReplicaAcks: env.number('REDIS_REPLICA_ACKS', 0, { min: 0, max: 10 }, 'replicas'),
    redisKeyPrefix: env.text('REDIS_KEY_PREFIX', 'mastra:topic', keyPrefixRule),
    instanceName: readInstanceName(env, values, machineName),
    logLevel: env.text<LogLevel>('LOG_LEVEL', 'info', logLevelRule),
    ...(agentModule !== undefined && { agentModule }),
    remoteAgents: env.text<readonly RemoteAgent[]>('AGENT_URLS', [], remoteAgentsRule),
    authTokens: env.text<readonly string[]>('AUTH_TOKENS', [], tokensRule),
    bodyLimitBytes: env.number('BODY_LIMIT_BYTES', mib, { min: kib, max: 64 * mib }, 'bytes'),
    maxRuns: env.number('MAX_RUNS', 1000, { min: 1, max: 1_000_000 }, 'runs'),
    drainDelayMs,
    ...(maxDrainTimeoutMs !== undefined && { maxDrainTimeoutMs }),
    mailbox: readMailboxLimits(env),
    kubernetes: readKubernetes(env),
  };
  if (redis && backendModule !== undefined) env.refuse('BACKEND_MODULE', backendModule, 'no address of a Redis beside it');
  if (settings.port !== 0 && settings.port === settings.metricsPort) {
    env.refuse('METRICS_PORT', String(settings.metricsPort), 'another port than PORT');
  }
  env.finish();
  return settings;
}

/** Of the time between SIGTERM and SIGKILL, what serving on and the last steps of a stop leave. */
function readDrainLimit(env: EnvironmentReader, drainDelayMs: number): number | undefined {
  const variable = 'TERMINATION_GRACE_MS';
  if (!env.has(variable)) return undefined;
  const taken = drainDelayMs + lastStepsMs + graceMarginMs;
  return env.number(variable, taken + 1, { min: taken + 1, max: 86_400_000 }, 'milliseconds') - taken;
}

function readMailboxLimits(env: EnvironmentReader): MailboxLimits {
  const limits: MailboxLimits = {
    maxEntries: env.number('INBOX_MAX_ENTRIES', 1000, { min: 1, max: 1_000_000 }, 'signals'),
    maxBytes: env.number('INBOX_MAX_BYTES', 16 * mib, { min: kib, max: 1024 * mib }, 'bytes'),
    signalMaxBytes: env.number('SIGNAL_MAX_BYTES', 256 * kib, { min: kib, max: 64 * mib }, 'bytes'),
    dedupeWindowMs: env.number('DEDUPE_WINDOW_MS', 600_000, { min: 1000, max: 604_800_000 }, 'milliseconds'),
    outputMaxChunks: env.number('OUTPUT_MAX_CHUNKS', 10_000, { min: 1, max: 1_000_000 }, 'chunks'),
    outputRetentionMs: env.number('OUTPUT_RETENTION_MS', 3_600_000, { min: 1000, max: 604_800_000 }, 'milliseconds'),
    maxDeliveryAttempts: env.number('MAX_DELIVERY_ATTEMPTS', 5, { min: 1, max: 1000 }, 'deliveries'),
  };
  if (limits.signalMaxBytes > limits.maxBytes) {
    env.refuse('SIGNAL_MAX_BYTES', String(limits.signalMaxBytes), `at most INBOX_MAX_BYTES (${limits.maxBytes})`);
  }
  return limits;
}

/** The name is part of owners and channels; one that Kubernetes or the machine gave is made to fit rather than refused. */
function readInstanceName(env: EnvironmentReader, values: SettingValues, machineName: string): string {
  const given = env.optional('INSTANCE_NAME', nameRule);
  if (given !== undefined) return given;
  const found = [values['POD_NAME'], values['HOSTNAME'], machineName].find(name => name !== undefined && name !== '');
  return (found ?? 'instance').replaceAll(/[^\w.-]/g, '-').slice(0, 253);
}

const nameRule: TextRule<string> = {
  parse: text => (/^[\w.-]{1,253}$/.test(text) ? text : undefined),
  allowed: 'letters, digits, dots, dashes and underscores, at most 253',
};

const hostRule: TextRule<string> = {
  parse: text => (/^[\w.:-]{1,253}$/.test(text) ? text : undefined),
  allowed: 'an address or a name to listen on',
};

const keyPrefixRule: TextRule<string> = {
  // Braces would move the hash tag and so the Cluster slot of every key.
  parse: text => (/^[^\s{}]{1,200}$/.test(text) ? text : undefined),
  allowed: 'without white space and braces, at most 200 characters',
};

const logLevelRule: TextRule<LogLevel> = {
  parse: text => logLevels.find(level => level === text),
  allowed: `one of ${logLevels.join(', ')}`,
};

const pathRule: TextRule<string> = {
  parse: text => (text.includes('\u0000') ? undefined : text),
  allowed: 'the path of a module',
};

const tokensRule: TextRule<readonly string[]> = {
  parse: text => parseList(text, token => (/^[\x21-\x7e]+$/.test(token) ? token : undefined)),
  allowed: 'tokens of visible ASCII characters with commas between',
  show: text => (text === '' ? '' : '***'),
};

const remoteAgentsRule: TextRule<readonly RemoteAgent[]> = {
  parse(text) {
    const agents = parseList(text, parseRemoteAgent);
    const ids = new Set(agents?.map(agent => agent.id));
    return agents && ids.size === agents.length ? agents : undefined;
  },
  allowed: '<agent id>=<http or https URL>, several with commas between, each id once',
  show: text => text.split(',').map(showRemoteAgent).join(','),
};

function parseRemoteAgent(text: string): RemoteAgent | undefined {
  const equals = text.indexOf('=');
  const id = text.slice(0, Math.max(0, equals));
  const url = text.slice(equals + 1);
  if (!/^[\w.-]{1,253}$/.test(id) || !URL.canParse(url)) return undefined;
  return ['http:', 'https:'].includes(new URL(url).protocol) ? { id, url } : undefined;
}

function showRemoteAgent(text: string): string {
  const equals = text.indexOf('=');
  const id = text.slice(0, Math.max(0, equals)).trim();
  return /^[\w.-]{1,253}$/.test(id) ? `${id}=${maskAddress(text.slice(equals + 1).trim())}` : maskAddress(text.trim());
}
