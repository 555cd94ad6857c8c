/** How scenarios reach the cluster: as people do, with `kubectl` and Helm; and what only tests do, a signal to a container. */

import { execFile } from 'node:child_process';
import type { ExecFileException } from 'node:child_process';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { inject } from 'vitest';

import { kubernetesTools } from '../support/helm.ts';
import type { HelmMajor } from '../support/helm.ts';

export const chart = 'charts/signals-runtime';
const root = join(import.meta.dirname, '..', '..');

/** Answers what it prints. Rejects with all of it. The event loop goes on meanwhile: traffic does not stop for an upgrade. */
export async function kubectl(args: readonly string[], input?: string): Promise<string> {
  return await call(kubernetesTools().kubectl, args, input);
}

export async function helm(args: readonly string[], values?: object, major: HelmMajor = 4): Promise<string> {
  const given = values === undefined ? [] : ['--values', '-'];
  return await call(kubernetesTools(major).helm, [...args, ...given], values === undefined ? undefined : JSON.stringify(values));
}

export async function apply(...objects: readonly object[]): Promise<void> {
  await kubectl(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
}

/** What `kubectl get ... -o json` answers. */
export async function get<T>(...args: readonly string[]): Promise<T> {
  return JSON.parse(await kubectl(['get', ...args, '-o', 'json'])) as T;
}

/** `id` as the pod's status has it. SIGKILL ends the container as a crash or the kernel would. */
export async function killContainer(id: string, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  const flags = ['--address', inject('cluster').containerdSocket, '--namespace', 'k8s.io'];
  await call('ctr', [...flags, 'tasks', 'kill', '--signal', signal, id.replace('containerd://', '')]);
}

async function call(program: string, args: readonly string[], input?: string): Promise<string> {
  const home = join(root, '.cache', 'kubernetes-tools', 'home');
  const env = {
    PATH: process.env['PATH'], HOME: homedir(), KUBECONFIG: inject('cluster').kubeconfig,
    HELM_CACHE_HOME: home, HELM_CONFIG_HOME: home, HELM_DATA_HOME: home,
  };
  return await new Promise((resolve, reject) => {
    const done = (error: ExecFileException | null, stdout: string, stderr: string) => {
      if (error) reject(new Error(`${args.join(' ')}: ${stderr}${stdout}`));
      else resolve(stdout);
    };
    const child = execFile(program, args, { cwd: root, env, maxBuffer: 64 * 1024 * 1024 }, done);
    child.stdin?.end(input);
  });
}
