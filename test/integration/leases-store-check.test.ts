import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import type { LogFields } from '../../src/core/logger.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { checkStore } from '../../src/redis/store-check.ts';
import type { StoreFinding } from '../../src/redis/store-check.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

function verdicts(findings: readonly StoreFinding[]): Record<string, string> {
  return Object.fromEntries(findings.map(({ subject, verdict }) => [subject, verdict]));
}

/** Case 10: what people ran for months before they learned that their store threw leases away. */
describe('the store check at start', () => {
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis({ config: ['appendonly yes'] });
    client = new Redis(server.url, { maxRetriesPerRequest: 0 });
  });
  afterEach(async () => void (await client.config('SET', 'maxmemory-policy', 'noeviction')));
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  it('finds nothing wrong with a server that is set up well, in one line a subject', async () => {
    const lines: LogFields[] = [];
    const logger = { ...silentLogger, info: (_message: string, fields: LogFields = {}) => void lines.push(fields) };
    const findings = await checkStore(client, { logger });
    expect(verdicts(findings)).toEqual({ version: 'ok', eviction: 'ok', persistence: 'ok', replicas: 'ok' });
    expect(lines).toEqual(findings);
  });

  it.each(['volatile-lru', 'volatile-ttl', 'volatile-random', 'volatile-lfu', 'allkeys-lru', 'allkeys-random'])(
    'says that %s throws leases away, and warns',
    async policy => {
      await client.config('SET', 'maxmemory-policy', policy);
      const warnings: LogFields[] = [];
      const logger = { ...silentLogger, warn: (_message: string, fields: LogFields = {}) => void warnings.push(fields) };
      expect(verdicts(await checkStore(client, { logger }))).toMatchObject({ eviction: 'bad' });
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toMatchObject({ subject: 'eviction', verdict: 'bad' });
      expect(String(warnings[0]?.['detail'])).toContain(policy);
    },
  );

  it('says that a server without an append-only file forgets', async () => {
    await client.config('SET', 'appendonly', 'no');
    expect(verdicts(await checkStore(client))).toMatchObject({ persistence: 'bad' });
    await client.config('SET', 'appendonly', 'yes');
  });

  it('says that leases cannot be confirmed when there are too few replicas', async () => {
    expect(verdicts(await checkStore(client, { replicaAcks: 1 }))).toMatchObject({ replicas: 'bad' });
  });

  it('says that a failover may lose leases while nobody asks for confirmation, and that a replica gives none', async () => {
    const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${server.port}`] });
    const replicaClient = new Redis(replica.url, { maxRetriesPerRequest: 0 });
    try {
      await until('the replica is connected', async () => (await client.info('replication')).includes('connected_slaves:1'));
      expect(verdicts(await checkStore(client))).toMatchObject({ replicas: 'bad' });
      expect(verdicts(await checkStore(client, { replicaAcks: 1 }))).toMatchObject({ replicas: 'ok' });
      expect(verdicts(await checkStore(replicaClient))).toMatchObject({ replicas: 'bad' });
    } finally {
      replicaClient.disconnect();
      await replica.stop();
    }
  });

  it('knows nothing when INFO is denied, and does not fail', async () => {
    await client.acl('SETUSER', 'shy', 'on', '>secret', '~*', '+@all', '-info');
    const shy = new Redis(server.url, { username: 'shy', password: 'secret', enableReadyCheck: false });
    try {
      const findings = await checkStore(shy);
      expect(new Set(Object.values(verdicts(findings)))).toEqual(new Set(['unknown']));
      expect(findings[0]?.detail).toContain('NOPERM');
    } finally {
      shy.disconnect();
    }
  });

  it('knows nothing when the server is away, and does not fail', async () => {
    const nowhere = new Redis({ port: 1, host: '127.0.0.1', lazyConnect: true, enableOfflineQueue: false, retryStrategy: () => null });
    nowhere.on('error', () => {});
    expect(new Set(Object.values(verdicts(await checkStore(nowhere))))).toEqual(new Set(['unknown']));
    nowhere.disconnect();
  });
});
