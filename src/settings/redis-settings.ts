/** Which Redis, from the environment. The result is plain data in the shape that the connector takes. */

import { booleanRule, parseList } from './environment.ts';
import type { EnvironmentReader, TextRule } from './environment.ts';
import { maskAddress } from './problems.ts';

export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

export interface RedisLogin {
  username?: string;
  password?: string;
  tls?: Record<string, never>;
}

export interface SentinelOptions extends RedisLogin {
  sentinels: HostAndPort[];
  name: string;
  sentinelPassword?: string;
}

export interface RedisAddress {
  url?: string;
  redisOptions?: RedisLogin | SentinelOptions;
  cluster?: { nodes: HostAndPort[]; options?: { redisOptions: RedisLogin } };
}

const sourceVariables = ['REDIS_URL', 'REDIS_SENTINELS', 'REDIS_CLUSTER_NODES'] as const;

/** `undefined`: none is named, so the embedded backend is meant. */
export function readRedisAddress(env: EnvironmentReader): RedisAddress | undefined {
  const url = env.optional('REDIS_URL', urlRule);
  const sentinels = env.optional('REDIS_SENTINELS', nodesRule);
  const name = env.optional('REDIS_SENTINEL_NAME', wordRule);
  const nodes = env.optional('REDIS_CLUSTER_NODES', nodesRule);
  const login = readLogin(env);
  const sentinelPassword = env.optional('REDIS_SENTINEL_PASSWORD', secretRule);
  checkSources(env, login);

  if (url !== undefined) return { url, ...(login && { redisOptions: login }) };
  if (nodes) return { cluster: { nodes, ...(login && { options: { redisOptions: login } }) } };
  if (sentinels && name !== undefined) {
    return { redisOptions: { sentinels, name, ...(sentinelPassword !== undefined && { sentinelPassword }), ...login } };
  }
  return undefined;
}

function readLogin(env: EnvironmentReader): RedisLogin | undefined {
  const username = env.optional('REDIS_USERNAME', secretRule);
  const password = env.optional('REDIS_PASSWORD', secretRule);
  const tls = env.text('REDIS_TLS', false, booleanRule);
  if (username === undefined && password === undefined && !tls) return undefined;
  return {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls && { tls: {} }),
  };
}

function checkSources(env: EnvironmentReader, login: RedisLogin | undefined): void {
  const given = sourceVariables.filter(variable => env.has(variable));
  if (given.length > 1) {
    for (const variable of given) env.refuse(variable, '(set)', `the only one set of ${sourceVariables.join(', ')}`);
  }
  if (env.has('REDIS_SENTINELS') && !env.has('REDIS_SENTINEL_NAME')) {
    env.refuse('REDIS_SENTINEL_NAME', '(not set)', 'set together with REDIS_SENTINELS: the name of the primary');
  }
  for (const variable of ['REDIS_SENTINEL_NAME', 'REDIS_SENTINEL_PASSWORD']) {
    if (env.has(variable) && !env.has('REDIS_SENTINELS')) {
      env.refuse(variable, '(set)', 'set only together with REDIS_SENTINELS');
    }
  }
  if (login && given.length === 0) {
    // A pod that was given a password and no address was meant to have Redis; alone it would run threads of its own.
    env.refuse('REDIS_URL', '(not set)', 'set when REDIS_USERNAME, REDIS_PASSWORD or REDIS_TLS is');
  }
}

const urlRule: TextRule<string> = {
  parse(text) {
    if (/\s/.test(text) || !URL.canParse(text)) return undefined;
    const { protocol, hostname, pathname } = new URL(text);
    // Another path is most likely the rest of a password with an unescaped `/`.
    const known = ['redis:', 'rediss:'].includes(protocol) && hostname !== '' && /^(\/\d*)?$/.test(pathname);
    return known ? text : undefined;
  },
  allowed: 'redis://host:port or rediss://host:port, with /number for a database',
  show: maskAddress,
};

const nodesRule: TextRule<HostAndPort[]> = {
  parse: text => parseList(text, parseHostAndPort),
  allowed: 'host:port, several with commas between',
  show: text => text.split(',').map(item => maskAddress(item.trim())).join(','),
};

const wordRule: TextRule<string> = {
  parse: text => (/^[\w.-]{1,253}$/.test(text) ? text : undefined),
  allowed: 'letters, digits, dots, dashes and underscores',
};

const secretRule: TextRule<string> = { parse: text => text, allowed: 'not empty', show: mask };

function mask(text: string): string {
  return text === '' ? '' : '***';
}

function parseHostAndPort(text: string): HostAndPort | undefined {
  const match = /^(?:\[([\da-f:.]{2,45})\]|([\w.-]{1,253})):(\d{1,5})$/i.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host !== undefined && port >= 1 && port <= 65_535 ? { host, port } : undefined;
}
