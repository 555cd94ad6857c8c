/** Redis with TLS, a user and a password: standalone and as a Cluster, on the real process. */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import { startRedisCluster } from '../support/redis-cluster.ts';
import { freePort, startRedis } from '../support/redis-server.ts';
import { startRuntime } from '../support/runtime-process.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const password = 'not-to-be-shown';
const cleanups: (() => Promise<unknown>)[] = [];
let directory: string;
let certificate: string;
let tlsConfig: readonly string[];

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'signals-tls-'));
  certificate = join(directory, 'certificate.pem');
  const key = join(directory, 'key.pem');
  const names = 'subjectAltName=IP:127.0.0.1,DNS:localhost';
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=localhost'];
  execFileSync('openssl', ['req', '-x509', ...kind, '-addext', names, '-keyout', key, '-out', certificate], { stdio: 'ignore' });
  tlsConfig = [
    `tls-cert-file ${certificate}`, `tls-key-file ${key}`, `tls-ca-cert-file ${certificate}`, 'tls-auth-clients no',
    `user pod on >${password} ~* &* +@all`,
  ];
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** The port that speaks TLS. */
async function startTlsRedis(): Promise<number> {
  const tlsPort = await freePort();
  // Others than the pod may only see that it is there.
  const server = await startRedis({ config: [...tlsConfig, `tls-port ${tlsPort}`, 'user default on nopass -@all +ping'] });
  cleanups.push(() => server.stop());
  return tlsPort;
}

async function start(env: Record<string, string>, unready = false): Promise<RuntimeProcess> {
  const runtime = await startRuntime({ name: 'a', env, unready });
  cleanups.push(() => runtime.destroy());
  return runtime;
}

async function send(to: RuntimeProcess, threadId: string): Promise<number> {
  const response = await fetch(`${to.url}/api/agents/echo/send-message`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ resourceId: 'user', threadId, message: 'hello' }),
  });
  return response.status;
}

test('a standalone server', async () => {
  const port = await startTlsRedis();
  const runtime = await start({ REDIS_URL: `rediss://pod:${password}@127.0.0.1:${port}`, NODE_EXTRA_CA_CERTS: certificate });
  expect(await send(runtime, 't')).toBe(200);
});

test('a Cluster, on all of its nodes', async () => {
  const ports: number[] = [];
  const cluster = await startRedisCluster(3, async () => {
    const port = await freePort();
    ports.push(port);
    return [...tlsConfig, `tls-port ${port}`, 'tls-cluster yes'];
  });
  cleanups.push(() => cluster.stop());
  const runtime = await start({
    REDIS_CLUSTER_NODES: ports.map(port => `127.0.0.1:${port}`).join(','),
    REDIS_USERNAME: 'pod',
    REDIS_PASSWORD: password,
    REDIS_TLS: 'true',
    NODE_EXTRA_CA_CERTS: certificate,
  });
  const threads = Array.from({ length: 20 }, (_, at) => `thread-${at}`);
  expect(await Promise.all(threads.map(thread => send(runtime, thread)))).toEqual(threads.map(() => 200));
});

test.each<[string, (port: number) => Record<string, string>, RegExp]>([
  ['a certificate that nobody vouches for', port => ({ REDIS_URL: `rediss://pod:${password}@127.0.0.1:${port}` }), /self-signed certificate/],
  [
    'another password',
    port => ({ REDIS_URL: `rediss://pod:${password}-wrong@127.0.0.1:${port}`, NODE_EXTRA_CA_CERTS: certificate }),
    /WRONGPASS/,
  ],
])('%s: not ready, and it is said why without the password', async (_what, env, reason) => {
  const runtime = await start(env(await startTlsRedis()), true);
  await until('it says why', () => runtime.logs().some(line => reason.test(line)));
  expect(await fetch(`${runtime.url}/readyz`).then(response => response.status)).toBe(503);
  expect([...runtime.logs(), runtime.stderr()].join('\n')).not.toContain(password);
});
