/**
 * Looks at start whether the server is set up for what we ask of it, and says so: one line a subject. It only says: a
 * server that must not be asked, or is not what we would wish, is no reason not to start.
 */

import { Cluster } from 'ioredis';

import { errorMessage } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { RedisClient } from './connection.ts';

export type StoreVerdict = 'ok' | 'bad' | 'unknown';

export interface StoreFinding {
  readonly subject: 'version' | 'eviction' | 'persistence' | 'replicas';
  readonly verdict: StoreVerdict;
  /** What was found and, if it is bad, what comes of it. */
  readonly detail: string;
}

export interface StoreCheckOptions {
  /** What the leases ask for (`RedisLeaseOptions`). Default 0. */
  replicaAcks?: number;
  logger?: Logger;
}

/** The fields of one server's `INFO`. */
type Info = ReadonlyMap<string, string>;
type Judge = (info: Info, replicaAcks: number) => Omit<StoreFinding, 'subject'>;

const judges: Record<StoreFinding['subject'], Judge> = {
  version(info) {
    const version = info.get('redis_version');
    if (version === undefined) return unknown('the server does not say its version');
    return Number(version.split('.')[0]) >= 7
      ? ok(version)
      : bad(`${version}: 7.0 or newer is needed (sharded pub/sub, PEXPIRE GT)`);
  },

  eviction(info) {
    const policy = info.get('maxmemory_policy');
    if (policy === undefined) return unknown('the server does not say its maxmemory-policy');
    if (policy === 'noeviction') return ok(policy);
    const when = info.get('maxmemory') === '0' ? 'once a maxmemory is set' : 'when memory is short';
    return bad(`${policy}: ${when}, leases and signals are thrown away; set maxmemory-policy noeviction`);
  },

  persistence(info) {
    const appendOnly = info.get('aof_enabled');
    if (appendOnly === undefined) return unknown('the server does not say whether it has an append-only file');
    if (appendOnly === '0') return bad('no append-only file: a restart loses signals, leases and tokens; set appendonly yes');
    const status = info.get('aof_last_write_status');
    return status === 'err' ? bad('the append-only file cannot be written') : ok('append-only file');
  },

  replicas(info, replicaAcks) {
    const role = info.get('role');
    const replicas = Number(info.get('connected_slaves'));
    if (role === undefined || !Number.isInteger(replicas)) return unknown('the server does not say its role and replicas');
    if (role !== 'master') return bad('this is a replica: it cannot give leases');
    const found = `${replicas} connected, replicaAcks ${replicaAcks}`;
    if (replicas < replicaAcks) return bad(`${found}: no lease can be confirmed`);
    if (replicas > 0 && replicaAcks === 0) return bad(`${found}: a failover may lose leases; set replicaAcks`);
    return ok(found);
  },
};

/** Never rejects: what could not be asked is `unknown`. In a Cluster the worst of its primaries counts. */
export async function checkStore(client: RedisClient, options: StoreCheckOptions = {}): Promise<StoreFinding[]> {
  const servers = client instanceof Cluster ? client.nodes('master') : [client];
  const infos = await Promise.all(servers.map(server => server.info().then(parseInfo, errorMessage)));
  const findings = (Object.keys(judges) as StoreFinding['subject'][]).map(subject => {
    const each = infos.map(info =>
      typeof info === 'string' ? unknown(`INFO failed: ${info}`) : judges[subject](info, options.replicaAcks ?? 0),
    );
    return { subject, ...worst(each) };
  });
  for (const { subject, verdict, detail } of findings) {
    const log = verdict === 'ok' ? 'info' : 'warn';
    options.logger?.[log]('store check', { subject, verdict, detail });
  }
  return findings;
}

function worst(each: readonly Omit<StoreFinding, 'subject'>[]): Omit<StoreFinding, 'subject'> {
  const rank: Record<StoreVerdict, number> = { bad: 2, unknown: 1, ok: 0 };
  const [first] = [...each].sort((a, b) => rank[b.verdict] - rank[a.verdict]);
  return first ?? unknown('no server is known');
}

function parseInfo(text: string): Info {
  const pairs = text.split(/\r?\n/).map(line => /^([^:#]+):(.*)$/.exec(line));
  return new Map(pairs.flatMap(match => (match ? [[match[1] ?? '', match[2] ?? ''] as const] : [])));
}

const ok = (detail: string) => ({ verdict: 'ok', detail }) as const;
const bad = (detail: string) => ({ verdict: 'bad', detail }) as const;
const unknown = (detail: string) => ({ verdict: 'unknown', detail }) as const;
