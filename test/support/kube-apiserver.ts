/**
 * A real control plane's API server on a real etcd, with RBAC and ServiceAccounts, on free ports. By itself it is on the loopback, and
 * nothing schedules or runs pods there: they are objects, which is all that Events and annotations need. test/cluster adds the rest.
 */

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { freePort } from './redis-server.ts';
import { until } from './until.ts';

export interface ApiAnswer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

export interface KubeApiserver {
  readonly url: string;
  readonly caFile: string;
  /** Of a user who may do everything. */
  readonly adminToken: string;
  /** With which tokens of ServiceAccounts are signed. */
  readonly signingKeyFile: string;
  readonly pid: number;
  /** As an administrator. */
  ask(method: string, path: string, body?: unknown): Promise<ApiAnswer>;
  /** Like `ask`, and throws unless it was done. */
  must(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  /** A new token of a ServiceAccount, as kubelet gets one for a pod. */
  tokenOf(namespace: string, serviceAccount: string): Promise<string>;
  /** A kubeconfig that reads its token from `tokenFile`, as the client in a pod does. */
  writeKubeconfig(file: string, tokenFile: string): void;
  /** The API server only; the data stays. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  restart(): Promise<void>;
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

const adminToken = 'administrator-of-this-test';

export interface KubeApiserverOptions {
  /** Where it listens and can be reached. */
  readonly address?: string;
  /** There are nodes and the controllers that belong to them: pods get the account and the token that they ask for. */
  readonly withNodes?: boolean;
}

export async function startKubeApiserver(binary: string, options: KubeApiserverOptions = {}): Promise<KubeApiserver> {
  const directory = mkdtempSync(join(tmpdir(), 'signals-kube-'));
  const [etcdPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const etcd = startEtcd(directory, etcdPort, peerPort);
  const { address = '127.0.0.1', withNodes = false } = options;
  const args = apiserverArgs({ directory, etcdPort, port, address, withNodes });
  const caFile = join(directory, 'certs', 'apiserver.crt');
  const url = `https://${address}:${port}`;
  const ask = (method: string, path: string, body?: unknown) => askServer(url + path, { method, token: adminToken, caFile, body });
  let server: ChildProcess | undefined;
  const launch = async () => {
    const log = { text: '' };
    const child = spawn(binary, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    server = child;
    child.stderr.setEncoding('utf8').on('data', (text: string) => (log.text = (log.text + text).slice(-4000)));
    await until('the API server is ready', async () => {
      if (child.exitCode !== null) throw new Error(`kube-apiserver exited with ${child.exitCode}: ${log.text}`);
      return await ask('GET', '/readyz').then(({ status }) => status === 200, () => false);
    }, 120_000, 200);
  };
  const kill = async (signal: NodeJS.Signals = 'SIGKILL') => await end(server, signal);
  const must = async (method: string, path: string, body?: unknown) => {
    const answer = await ask(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const stop = async () => {
    await kill();
    await end(etcd, 'SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    await launch();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    get pid() {
      return server?.pid ?? -1;
    },
    url, caFile, adminToken, signingKeyFile: join(directory, 'sa.key'), ask, must, kill, stop,
    async tokenOf(namespace, serviceAccount) {
      const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${serviceAccount}/token`;
      const { status } = await must('POST', path, { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: [] } });
      return (status as { token: string }).token;
    },
    writeKubeconfig: (file, tokenFile) => writeFileSync(file, JSON.stringify(kubeconfig(url, caFile, tokenFile))),
    async restart() {
      await kill();
      await launch();
    },
    pause: () => void server?.kill('SIGSTOP'),
    resume: () => void server?.kill('SIGCONT'),
  };
}

function startEtcd(directory: string, port: number, peerPort: number): ChildProcess {
  const [client, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  const child = spawn('etcd', [
    '--data-dir', join(directory, 'etcd'),
    '--listen-client-urls', client, '--advertise-client-urls', client,
    '--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer, '--initial-cluster', `default=${peer}`,
    '--log-level', 'error', '--logger', 'zap',
  ], { stdio: 'ignore' });
  child.on('error', error => {
    throw new Error(`etcd could not be started (Debian: etcd-server): ${error.message}`);
  });
  return child;
}

interface Layout extends Required<KubeApiserverOptions> {
  readonly directory: string;
  readonly etcdPort: number;
  readonly port: number;
}

function apiserverArgs({ directory, etcdPort, port, address, withNodes }: Layout): string[] {
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  return [
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    `--bind-address=${address}`, `--advertise-address=${address}`, `--secure-port=${port}`,
    `--cert-dir=${join(directory, 'certs')}`, // it makes its own certificate there
    '--service-cluster-ip-range=10.0.0.0/24',
    '--authorization-mode=RBAC', `--token-auth-file=${file('tokens.csv', `${adminToken},admin,admin,system:masters\n`)}`,
    '--service-account-issuer=https://kubernetes.default.svc', '--api-audiences=https://kubernetes.default.svc',
    `--service-account-key-file=${file('sa.pub', publicKey)}`, `--service-account-signing-key-file=${file('sa.key', privateKey)}`,
    ...(withNodes
      ? ['--kubelet-preferred-address-types=InternalIP', '--allow-privileged=true']
      // Nobody is there who makes the default ServiceAccount that it asks of every pod, nor can the loopback be an endpoint.
      : ['--disable-admission-plugins=ServiceAccount', '--endpoint-reconciler-type=none']),
    '--profiling=false', '-v=0',
  ];
}

function kubeconfig(server: string, caFile: string, tokenFile: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [{ name: 'test', cluster: { server, 'certificate-authority': caFile } }],
    users: [{ name: 'pod', user: { 'auth-provider': { name: 'tokenFile', config: { tokenFile } } } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'pod' } }],
  };
}

interface Ask {
  method: string;
  token: string;
  caFile: string;
  body?: unknown;
}

async function askServer(url: string, { method, token, caFile, body }: Ask): Promise<ApiAnswer> {
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  const ca = readFileSync(caFile);
  return await new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': type };
    const outgoing = request(url, { method, headers, ca, timeout: 10_000 }, response => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(parts).toString('utf8');
        resolve({ status: response.statusCode ?? 0, body: text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : { text } });
      });
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error(`no answer to ${method} ${url}`)));
    outgoing.on('error', reject);
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGCONT');
  child.kill(signal);
  await gone;
}
