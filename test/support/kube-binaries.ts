/**
 * Kubernetes' own programs, built from its Go module (kube-tools/go.mod pins the version) once per machine. The build takes from
 * ten minutes to an hour, so it is only done when asked for.
 */

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const tools = join(import.meta.dirname, 'kube-tools');

export function kubeVersion(): string {
  const version = /^require k8s\.io\/kubernetes (v[\d.]+)|^\tk8s\.io\/kubernetes (v[\d.]+)/m.exec(readFileSync(join(tools, 'go.mod'), 'utf8'));
  const found = version?.[1] ?? version?.[2];
  if (found === undefined) throw new Error('kube-tools/go.mod requires no version of k8s.io/kubernetes');
  return found;
}

export function kubeBinaryPath(name: string): string {
  return join(homedir(), '.cache', 'signals-runtime', 'kube', kubeVersion(), name);
}

export function hasProgram(program: string): boolean {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined;
}

/** The path of the program; builds it if it is not there yet. At low priority, one package at a time. */
export function buildKubeBinary(name: string): string {
  const path = kubeBinaryPath(name);
  if (existsSync(path)) return path;
  const version = kubeVersion();
  console.log(`building ${name} ${version}; this takes long, and is done once per machine`);
  mkdirSync(join(path, '..'), { recursive: true });
  const variable = 'k8s.io/component-base/version';
  const [major, minor] = version.slice(1).split('.');
  const flags = `-s -w -X ${variable}.gitVersion=${version} -X ${variable}.gitMajor=${major} -X ${variable}.gitMinor=${minor}`;
  const partial = `${path}.${process.pid}.part`;
  const { status, error } = spawnSync(
    'nice',
    ['-n', '19', 'go', 'build', '-p', '1', '-trimpath', '-ldflags', flags, '-o', partial, `k8s.io/kubernetes/cmd/${name}`],
    { cwd: tools, stdio: 'inherit' },
  );
  if (error) throw error;
  if (status !== 0) throw new Error(`${name} could not be built (go ended with ${status})`);
  renameSync(partial, path);
  return path;
}
