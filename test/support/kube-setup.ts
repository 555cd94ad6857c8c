/**
 * Before the project `kubernetes`: is there an API server to test against? It is built only on `KUBE_TESTS=1`, since that takes
 * long; without it, and without one from an earlier time, these tests are not run, and that is said.
 */

import { existsSync } from 'node:fs';

import type { TestProject } from 'vitest/node';

import { buildKubeBinary, hasProgram, kubeBinaryPath } from './kube-binaries.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Path of kube-apiserver; empty when there is none. */
    kubeApiserver: string;
  }
}

export function setup(project: TestProject): void {
  project.provide('kubeApiserver', apiserver());
}

function apiserver(): string {
  const wanted = process.env['KUBE_TESTS'] === '1';
  const path = kubeBinaryPath('kube-apiserver');
  const missing = [existsSync(path) ? '' : 'kube-apiserver', hasProgram('etcd') ? '' : 'etcd (Debian: etcd-server)'].filter(Boolean);
  if (missing.length === 0) return path;
  if (wanted && hasProgram('etcd')) return buildKubeBinary('kube-apiserver');
  if (wanted) throw new Error('etcd is needed (Debian: apt-get install etcd-server)');
  console.log(`NOT RUN: the tests against a real Kubernetes API server; missing: ${missing.join(', ')}. KUBE_TESTS=1 builds kube-apiserver.`);
  return '';
}
