/**
 * The cluster has a network, a mount table and process numbers of its own (run.ts asks `unshare` for them): its packet filter rules are
 * not the machine's, there is no way out, and nothing outlives it. This sets up what a machine has when it starts.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const network = {
  /** Of the one node: the API server's, the kubelet's and the name server's. */
  node: '10.250.0.1',
  pods: '10.244.0.0/24',
  domain: 'cluster.local',
} as const;

export function setUpNetwork(): void {
  run('ip', 'link', 'set', 'lo', 'up');
  // A bridge with nothing on it: the node's address must be on something that is not the loopback.
  run('ip', 'link', 'add', 'node0', 'type', 'bridge');
  run('ip', 'addr', 'add', `${network.node}/24`, 'dev', 'node0');
  run('ip', 'link', 'set', 'node0', 'up');
  run('ip', 'route', 'add', 'default', 'dev', 'node0');
  writeFileSync('/proc/sys/net/ipv4/ip_forward', '1');
  // Packets between pods pass the Services' rules, also on their way back.
  writeFileSync('/proc/sys/net/bridge/bridge-nf-call-iptables', '1');
}

/** Folders that a node writes to whatever it is told are its own and gone with it. */
export function hideFolders(): void {
  for (const folder of ['/run', '/var/log', '/var/lib/cni', '/var/lib/kubelet']) {
    mkdirSync(folder, { recursive: true });
    run('mount', '-t', 'tmpfs', 'tmpfs', folder);
  }
  mkdirSync('/run/netns');
}

/**
 * Pods' control groups are below one of this name. Version 1 has a tree for each controller, version 2 one for all. Answers how to
 * remove them, when nothing runs there any more.
 */
export function makeControlGroup(name: string): () => void {
  const base = '/sys/fs/cgroup';
  const trees = readdirSync(base).includes('cgroup.controllers')
    ? [base]
    : readdirSync(base).map(tree => join(base, tree));
  const made = trees.map(tree => join(tree, name));
  for (const folder of made) mkdirSync(folder, { recursive: true });
  return () => made.forEach(removeTree);
}

/** Its files can't be removed and go with their folders. */
function removeTree(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) if (entry.isDirectory()) removeTree(join(folder, entry.name));
  rmdirSync(folder);
}

function run(command: string, ...args: string[]): void {
  execFileSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}
