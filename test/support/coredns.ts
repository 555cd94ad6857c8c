/** The cluster's name server, built from its Go module (coredns-tools/go.mod pins the version); see go-tools.ts. */

import { join } from 'node:path';

import { buildProgram, programPath } from './go-tools.ts';
import type { GoModule } from './go-tools.ts';

const coredns: GoModule = {
  path: 'github.com/coredns/coredns',
  folder: join(import.meta.dirname, 'coredns-tools'),
  cache: 'coredns',
  isProgram: true,
};

export function corednsPath(): string {
  return programPath(coredns, 'coredns');
}

/** The path of the program; builds it if it is not there yet. */
export function buildCoredns(): string {
  return buildProgram(coredns, 'coredns');
}
