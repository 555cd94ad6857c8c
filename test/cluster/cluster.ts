/** A whole cluster on this machine: control plane, one node, images. Call it inside namespaces of its own (see network.ts). */

import { startKubeApiserver } from '../support/kube-apiserver.ts';
import type { KubeApiserver } from '../support/kube-apiserver.ts';
import { kubeBinaryPath } from '../support/kube-binaries.ts';
import { until } from '../support/until.ts';
import { startContainerd } from './containerd.ts';
import { startControllers, writeAdminConfig } from './control-plane.ts';
import type { Daemon } from './daemon.ts';
import { hideFolders, network, setUpNetwork } from './network.ts';
import { nodeName, startNode } from './node.ts';

export interface ClusterOptions {
  /** Everything that it writes is below it. */
  readonly directory: string;
  /** Everything that pods run is below it. */
  readonly controlGroup: string;
  /** Of images. */
  readonly archives: readonly string[];
}

export interface Cluster {
  readonly server: KubeApiserver;
  readonly kubeconfig: string;
  readonly containerdSocket: string;
  stop(): Promise<void>;
}

/** Throws, with the last words of whoever failed. */
export async function startCluster({ directory, controlGroup, archives }: ClusterOptions, say: (text: string) => void): Promise<Cluster> {
  const undo: (() => unknown)[] = [];
  const stop = async () => {
    for (const step of undo.toReversed()) await step();
    undo.length = 0;
  };
  try {
    hideFolders();
    setUpNetwork();
    say('starting the API server');
    const server = await startKubeApiserver(kubeBinaryPath('kube-apiserver'), { address: network.node, withNodes: true });
    undo.push(() => server.stop());
    const kubeconfig = writeAdminConfig(server, directory);
    say('starting the container runtime, and giving it the images');
    const containerd = await startContainerd(directory);
    undo.push(() => containerd.stop());
    for (const archive of archives) containerd.ctr('images', 'import', archive);
    say('starting controllers, scheduler and node');
    const daemons = [
      ...startControllers(server, kubeconfig, directory),
      ...startNode({ directory, kubeconfig, containerdSocket: containerd.socket, controlGroup }),
    ];
    undo.push(() => Promise.all(daemons.map(daemon => daemon.stop())));
    await nodeReady(server, daemons);
    return { server, kubeconfig, containerdSocket: containerd.socket, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function nodeReady(server: KubeApiserver, daemons: readonly Daemon[]): Promise<void> {
  await until('the node is ready', async () => {
    for (const daemon of daemons) daemon.assertRunning();
    const { body } = await server.ask('GET', `/api/v1/nodes/${nodeName}`);
    const { conditions = [] } = (body['status'] ?? {}) as { conditions?: { type: string; status: string; message: string }[] };
    return conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
  }, 120_000, 500);
}
