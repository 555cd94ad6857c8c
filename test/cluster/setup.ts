/** Before the scenarios: the cluster. After them: nothing is left. */

import { setTimeout as pause } from 'node:timers/promises';

import type { TestProject } from 'vitest/node';

import { startCluster } from './cluster.ts';

export interface ClusterAccess {
  readonly kubeconfig: string;
  readonly containerdSocket: string;
  /** SIGSTOP to it is an API server that answers nobody. */
  readonly apiServerPid: number;
}

declare module 'vitest' {
  export interface ProvidedContext {
    cluster: ClusterAccess;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { CLUSTER_DIRECTORY: directory, CLUSTER_GROUP: controlGroup, CLUSTER_IMAGES: archives } = process.env;
  if (!directory || !controlGroup || !archives) throw new Error('these tests are started by npm run test:cluster');
  const cluster = await startCluster({ directory, controlGroup, archives: archives.split(',') }, text => console.log(text));
  const { kubeconfig, containerdSocket, server } = cluster;
  project.provide('cluster', { kubeconfig, containerdSocket, apiServerPid: server.pid });
  return async () => {
    // For looking at it from another shell: nsenter into the namespaces of this process.
    const keepMs = Number(process.env['CLUSTER_KEEP_MS'] ?? 0);
    if (keepMs > 0) console.log(`keeping the cluster for ${keepMs} ms: ${kubeconfig}`);
    await pause(keepMs);
    await cluster.stop();
  };
}
