/**
 * Kubernetes' own programs (kube-tools/go.mod pins the version). A build takes from ten minutes to an hour; see go-tools.ts.
 */

import { join } from 'node:path';

import { buildProgram, programPath, versionOf } from './go-tools.ts';
import type { GoModule } from './go-tools.ts';

export { hasProgram } from './go-tools.ts';

const kubernetes: GoModule = {
  path: 'k8s.io/kubernetes',
  folder: join(import.meta.dirname, 'kube-tools'),
  cache: 'kube',
  flags(version) {
    const variable = 'k8s.io/component-base/version';
    const [major, minor] = version.slice(1).split('.');
    return `-X ${variable}.gitVersion=${version} -X ${variable}.gitMajor=${major} -X ${variable}.gitMinor=${minor}`;
  },
};

export function kubeVersion(): string {
  return versionOf(kubernetes);
}

export function kubeBinaryPath(name: string): string {
  return programPath(kubernetes, name);
}

/** The path of the program; builds it if it is not there yet. */
export function buildKubeBinary(name: string): string {
  return buildProgram(kubernetes, name);
}
