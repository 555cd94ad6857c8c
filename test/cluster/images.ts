/**
 * The images of the cluster, made on this machine: no container registry is asked. A Debian with Redis and Node (debootstrap), which
 * is the base of the product's Dockerfile, the store in the tests and the pause container; and the product, by its own Dockerfile.
 *
 * Kept in `~/.cache/signals-runtime/containers`: the first time takes minutes, later ones seconds.
 */

import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

/** As pods name them. They are in no registry: what is not there can't be pulled. */
export const images = {
  base: 'cluster.test/base:1',
  runtime: 'cluster.test/signals-runtime:first',
  /** The same image under another tag: what an upgrade changes to. */
  nextRuntime: 'cluster.test/signals-runtime:next',
} as const;

const root = join(import.meta.dirname, '..', '..');
const store = join(homedir(), '.cache', 'signals-runtime', 'containers');
/** Images with their steps; a build has some 25. */
const mostKept = 100;
const authorities = '/etc/ssl/certs/ca-certificates.crt';

/** Makes what is missing, and writes each into an archive in `directory`. Answers the archives. */
export function prepareImages(directory: string): string[] {
  makeBase();
  buildRuntime();
  // Each build leaves its steps behind, which make the next one quick and are many after a day's work.
  if (buildah('images', '--all', '--quiet').split('\n').length > mostKept) buildah('rmi', '--prune');
  return Object.values(images).map(image => {
    const archive = join(directory, `${image.replaceAll(/[^a-z0-9]+/g, '-')}.tar`);
    buildah('push', '--quiet', image, `docker-archive:${archive}:${image}`);
    return archive;
  });
}

/** Debian with what the product's Dockerfile asks of its base (Node, npm), with Redis, and with this machine's authorities. */
function makeBase(): void {
  const node = join(root, 'node_modules', 'node', 'bin', 'node');
  const nodeVersion = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim();
  if (nodeVersionOf(images.base) === nodeVersion) return;
  const directory = mkdtempSync(join(tmpdir(), 'signals-base-'));
  try {
    execFileSync('debootstrap', ['--variant=minbase', '--include=redis-server,ca-certificates', 'bookworm', directory], { stdio: ['ignore', 'ignore', 'inherit'] });
    for (const path of ['var/cache/apt', 'var/lib/apt/lists', 'usr/share/doc', 'usr/share/locale']) rmSync(join(directory, path), { recursive: true });
    const local = join(directory, 'usr', 'local');
    copyFileSync(node, join(local, 'bin', 'node'));
    mkdirSync(join(local, 'lib', 'node_modules'));
    cpSync(npmFolder(), join(local, 'lib', 'node_modules', 'npm'), { recursive: true });
    symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin', 'npm'));
    if (existsSync(authorities)) copyFileSync(authorities, join(directory, authorities));
    const container = buildah('from', 'scratch');
    buildah('add', '--quiet', container, directory, '/');
    const path = 'PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    buildah('config', '--env', path, '--env', `NODE_EXTRA_CA_CERTS=${authorities}`, '--env', 'npm_config_loglevel=error', '--label', `node=${nodeVersion}`, '--cmd', '["sleep", "infinity"]', container);
    buildah('commit', '--quiet', '--rm', container, images.base);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Of the npm on the PATH: …/npm/bin/npm-cli.js is what its command leads to. */
function npmFolder(): string {
  const command = execFileSync('sh', ['-c', 'command -v npm'], { encoding: 'utf8' }).trim();
  return join(realpathSync(command), '..', '..');
}

function buildRuntime(): void {
  const npmCache = execFileSync('npm', ['config', 'get', 'cache'], { encoding: 'utf8' }).trim();
  mkdirSync(npmCache, { recursive: true });
  buildah(
    'bud', '--isolation', 'chroot', '--layers', '--network', 'host', '--volume', `${npmCache}:/root/.npm`,
    '--build-arg', `NODE_IMAGE=${images.base}`, '--tag', images.runtime, root,
  );
  buildah('tag', images.runtime, images.nextRuntime);
}

/** Of the image that is there; `undefined` if none is. */
function nodeVersionOf(image: string): string | undefined {
  const { status, stdout } = spawnSync('buildah', [...storeFlags, 'inspect', '--type', 'image', '--format', '{{ index .OCIv1.Config.Labels "node" }}', image], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

const storeFlags = ['--root', store, '--runroot', join(tmpdir(), 'signals-buildah')];

/** Answers what it prints. Throws with all of it. */
function buildah(...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync('buildah', [...storeFlags, ...args], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
  if (error) throw error;
  if (status !== 0) throw new Error(`buildah ${args.join(' ')} ended with ${status}: ${stdout}${stderr}`);
  return stdout.trim();
}
