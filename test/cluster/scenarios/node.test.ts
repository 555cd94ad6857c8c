import { expect, inject, test } from 'vitest';
import { execFileSync } from 'node:child_process';

test('a node', () => {
  expect(execFileSync('kubectl', ['get', 'nodes', '-o', 'wide'], { encoding: 'utf8', env: { ...process.env, KUBECONFIG: inject('cluster').kubeconfig } })).toContain('Ready');
});
