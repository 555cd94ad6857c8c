/** What the cluster is made of, and whether it is here. */

import { existsSync } from 'node:fs';

import { buildCoredns, corednsPath } from '../support/coredns.ts';
import { hasProgram } from '../support/go-tools.ts';
import { buildKubeBinary, kubeBinaryPath } from '../support/kube-binaries.ts';

const kubernetes = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kube-proxy'] as const;

/** Programs, or files of packages without a program of that name, and the Debian packages that have them. */
const debian = {
  etcd: 'etcd-server', containerd: 'containerd', ctr: 'containerd', runc: 'runc', '/usr/lib/cni/bridge': 'containernetworking-plugins',
  buildah: 'buildah', debootstrap: 'debootstrap', iptables: 'iptables', conntrack: 'conntrack', ip: 'iproute2', unshare: 'util-linux',
} as const;

/** What a package manager can bring. */
export function missingPackages(): string[] {
  return [...new Set(Object.entries(debian).filter(([program]) => !isThere(program)).map(([, name]) => name))];
}

/** Programs that have to be built, which takes long. */
export function missingBuilds(): string[] {
  return [
    ...kubernetes.filter(name => !existsSync(kubeBinaryPath(name))),
    ...(existsSync(corednsPath()) ? [] : ['coredns']),
  ];
}

export function buildMissing(): void {
  for (const name of kubernetes) buildKubeBinary(name);
  buildCoredns();
}

function isThere(program: string): boolean {
  return program.startsWith('/') ? existsSync(program) : hasProgram(program, '--help');
}
