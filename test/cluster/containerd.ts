/** The container runtime: Debian's containerd and runc, with everything of theirs in a directory of the test's own. */

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { until } from '../support/until.ts';
import { Daemon } from './daemon.ts';
import { images } from './images.ts';
import { network } from './network.ts';

export interface Containerd {
  readonly socket: string;
  /** `ctr` in the kubelet's namespace. Answers what it prints. */
  ctr(...args: string[]): string;
  stop(): Promise<void>;
}

export async function startContainerd(directory: string): Promise<Containerd> {
  const cni = join(directory, 'cni');
  mkdirSync(cni, { recursive: true });
  writeFileSync(join(cni, '10-pods.conflist'), JSON.stringify(podNetwork(directory)));
  const socket = join(directory, 'containerd.sock');
  const file = join(directory, 'containerd.toml');
  writeFileSync(file, configuration({ directory, cni, socket }));
  const daemon = new Daemon('containerd', ['--config', file], directory);
  const flags = ['--address', socket, '--namespace', 'k8s.io'];
  await until('containerd answers', () => {
    daemon.assertRunning();
    return spawnSync('ctr', [...flags, 'version'], { stdio: 'ignore' }).status === 0;
  }, 30_000, 100);
  return {
    socket,
    ctr: (...args) => execFileSync('ctr', [...flags, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }),
    stop: () => daemon.stop(),
  };
}

/** All pods on one bridge, which is also their way to the node. */
function podNetwork(directory: string): object {
  return {
    cniVersion: '1.0.0',
    name: 'pods',
    plugins: [
      {
        type: 'bridge', bridge: 'cni0', isGateway: true, hairpinMode: true,
        ipam: { type: 'host-local', dataDir: join(directory, 'addresses'), ranges: [[{ subnet: network.pods }]], routes: [{ dst: '0.0.0.0/0' }] },
      },
    ],
  };
}

function configuration({ directory, cni, socket }: { directory: string; cni: string; socket: string }): string {
  return `version = 2
root = "${join(directory, 'containerd')}"
state = "${join(directory, 'containerd-state')}"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "${socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "${join(directory, 'opt')}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${images.base}"
  # Where even root may not lower it.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "${cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`;
}
