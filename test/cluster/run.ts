/**
 * The chart and the image in a real cluster on this machine; README.md says what that takes. Arguments are names of scenarios; none: all.
 * The last line is `<n> passed, <n> failed`.
 *
 * - programs.ts, images.ts   what it is made of: built once per machine
 * - setup.ts, cluster.ts     the cluster: containerd.ts, control-plane.ts, node.ts, network.ts
 * - scenarios/               what is tested
 */

import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

import { kubernetesTools } from '../support/helm.ts';
import { runVitest } from '../support/vitest-report.ts';
import type { Counts } from '../support/vitest-report.ts';
import { prepareImages } from './images.ts';
import { makeControlGroup } from './network.ts';
import { buildMissing, missingBuilds, missingPackages } from './programs.ts';

const root = join(import.meta.dirname, '..', '..');
// The Node of the lockfile goes first, however this was started.
const env = { ...process.env, PATH: [join(root, 'node_modules', '.bin'), process.env['PATH']].join(delimiter) };

/** Everything that the cluster starts is in them, and ends with the first process in there. */
const namespaces = ['unshare', '--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];

function main(): void {
  process.env['PATH'] = env.PATH;
  const { passed, failed } = run();
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}

function run(): Counts {
  try {
    provide();
    return inNewCluster(process.argv.slice(2));
  } catch (error) {
    console.error(error);
    return { passed: 0, failed: 1 };
  }
}

function provide(): void {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) throw new Error('a node runs on Linux, as root');
  const packages = missingPackages();
  if (packages.length > 0) {
    console.log(`installing ${packages.join(', ')}`);
    const apt = (...args: string[]) => spawnSync('apt-get', ['-q', ...args], { stdio: 'inherit', env: { ...env, DEBIAN_FRONTEND: 'noninteractive' } });
    apt('update'); // if that fails, the lists that are there may still do
    apt('install', '-y', '--no-install-recommends', ...packages);
    const missing = missingPackages();
    if (missing.length > 0) throw new Error(`could not be installed: ${missing.join(', ')}`);
  }
  const builds = missingBuilds();
  if (builds.length > 0) console.log(`building ${builds.join(', ')}: once per machine`);
  buildMissing();
  for (const major of [3, 4] as const) kubernetesTools(major); // fetched now: the cluster has no way out
}

function inNewCluster(scenarios: readonly string[]): Counts {
  const directory = mkdtempSync(join(tmpdir(), 'signals-cluster-'));
  const group = `signals-cluster-${randomBytes(4).toString('hex')}`;
  const removeControlGroup = makeControlGroup(group);
  try {
    console.log('making the images');
    const archives = prepareImages(directory);
    return runVitest(['--config', 'test/cluster/vitest.config.ts', ...scenarios], {
      cwd: root,
      launcher: namespaces,
      env: { ...env, CLUSTER_DIRECTORY: directory, CLUSTER_GROUP: group, CLUSTER_IMAGES: archives.join(',') },
    });
  } finally {
    removeControlGroup();
    rmSync(directory, { recursive: true, force: true });
  }
}

main();
