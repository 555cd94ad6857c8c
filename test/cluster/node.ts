/** The node: kubelet, kube-proxy, and the name server of the pods. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { corednsPath } from '../support/coredns.ts';
import { kubeBinaryPath } from '../support/kube-binaries.ts';
import { Daemon } from './daemon.ts';
import { network } from './network.ts';

export const nodeName = 'node-1';

export interface NodeOptions {
  readonly directory: string;
  readonly kubeconfig: string;
  readonly containerdSocket: string;
  readonly controlGroup: string;
}

export function startNode(options: NodeOptions): Daemon[] {
  const { directory, kubeconfig } = options;
  const file = (name: string, configuration: object) => {
    writeFileSync(join(directory, name), JSON.stringify(configuration));
    return join(directory, name);
  };
  mkdirSync(join(directory, 'pod-logs'), { recursive: true });
  writeFileSync(join(directory, 'resolv.conf'), '');
  return [
    new Daemon(kubeBinaryPath('kubelet'), [
      `--config=${file('kubelet.json', kubelet(options))}`, `--kubeconfig=${kubeconfig}`, `--root-dir=${join(directory, 'kubelet')}`,
      `--cert-dir=${join(directory, 'certs')}`, `--hostname-override=${nodeName}`, `--node-ip=${network.node}`, '-v=2',
    ], directory),
    new Daemon(kubeBinaryPath('kube-proxy'), [`--config=${file('kube-proxy.json', kubeProxy(kubeconfig))}`, `--hostname-override=${nodeName}`], directory),
    new Daemon(corednsPath(), ['-conf', corefile(directory, kubeconfig)], directory),
  ];
}

/** Names of Services are answered; of everything else it is said that it does not exist. */
function corefile(directory: string, kubeconfig: string): string {
  const file = join(directory, 'Corefile');
  const common = `bind ${network.node}\n  errors`;
  writeFileSync(file, `${network.domain}:53 {\n  ${common}\n  kubernetes ${network.domain} {\n    kubeconfig ${kubeconfig}\n  }\n}\n.:53 {\n  ${common}\n  template ANY ANY {\n    rcode NXDOMAIN\n  }\n}\n`);
  return file;
}

function kubelet({ directory, containerdSocket, controlGroup }: NodeOptions): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    containerRuntimeEndpoint: `unix://${containerdSocket}`,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${controlGroup}`,
    failCgroupV1: false,
    failSwapOn: false,
    // Root here may lack CAP_SYS_RESOURCE, or be refused sysctls: said in the log instead of ending the kubelet.
    featureGates: { KubeletInUserNamespace: true },
    // Nobody else is in this network.
    address: network.node,
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    clusterDNS: [network.node],
    clusterDomain: network.domain,
    resolvConf: join(directory, 'resolv.conf'),
    podLogsDir: join(directory, 'pod-logs'),
    enforceNodeAllocatable: [],
    // A full disk or little memory of this machine is not what is tested.
    evictionHard: { 'memory.available': '0%', 'nodefs.available': '0%', 'nodefs.inodesFree': '0%', 'imagefs.available': '0%' },
    imageGCHighThresholdPercent: 100,
    // How often mounted ConfigMaps are looked at; a minute by default.
    syncFrequency: '10s',
    volumePluginDir: join(directory, 'volume-plugins'),
  };
}

function kubeProxy(kubeconfig: string): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    clientConnection: { kubeconfig },
    mode: 'iptables',
    clusterCIDR: network.pods,
    bindAddress: network.node,
    metricsBindAddress: '127.0.0.1:10249',
    healthzBindAddress: '127.0.0.1:10256',
    // Limits of the whole machine, which are not this network's to set.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  };
}
