/** What a cluster has beside the API server: controllers and the scheduler, as an administrator. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { KubeApiserver } from '../support/kube-apiserver.ts';
import { kubeBinaryPath } from '../support/kube-binaries.ts';
import { Daemon } from './daemon.ts';
import { network } from './network.ts';

/** For `kubectl`, Helm and the cluster's own programs: a user who may do everything. */
export function writeAdminConfig(server: KubeApiserver, directory: string): string {
  const file = join(directory, 'kubeconfig');
  const config = {
    apiVersion: 'v1', kind: 'Config', 'current-context': 'test',
    clusters: [{ name: 'test', cluster: { server: server.url, 'certificate-authority': server.caFile } }],
    users: [{ name: 'admin', user: { token: server.adminToken } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  return file;
}

export function startControllers(server: KubeApiserver, kubeconfig: string, directory: string): Daemon[] {
  const common = [`--kubeconfig=${kubeconfig}`, '--leader-elect=false', '--bind-address=127.0.0.1', `--cert-dir=${join(directory, 'certs')}`];
  return [
    new Daemon(kubeBinaryPath('kube-controller-manager'), [
      ...common, `--service-account-private-key-file=${server.signingKeyFile}`, `--root-ca-file=${server.caFile}`,
      '--allocate-node-cidrs=true', `--cluster-cidr=${network.pods}`, '--node-cidr-mask-size=24',
    ], directory),
    new Daemon(kubeBinaryPath('kube-scheduler'), common, directory),
  ];
}
