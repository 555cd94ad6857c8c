/**
 * Other projects' programs for tests, built from their Go modules once per machine. A folder of its own pins each module's version
 * (go.mod, go.sum); the program is kept in `~/.cache/signals-runtime`. A build may take long, so it is only done when asked for.
 */

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

export interface GoModule {
  /** Of the module. */
  readonly path: string;
  /** The folder with the go.mod that requires it. */
  readonly folder: string;
  /** Of its programs below the cache. */
  readonly cache: string;
  /** The module is itself the program: there are none below `cmd`. */
  readonly isProgram?: boolean;
  /** For the linker, by the module's version. */
  readonly flags?: (version: string) => string;
}

/** The version of the module that is pinned. */
export function versionOf({ path, folder }: GoModule): string {
  const file = join(folder, 'go.mod');
  const line = readFileSync(file, 'utf8').split('\n').find(text => text.replace(/^(require)?\s+/, '').startsWith(`${path} v`));
  const version = /\s(v\d[^\s/]*)/.exec(line ?? '')?.[1];
  if (version === undefined) throw new Error(`${file} requires no version of ${path}`);
  return version;
}

/** Where the program is, if it was built. `name`: the last part of its package, `<module>/cmd/<name>` unless the module is the program. */
export function programPath(module: GoModule, name: string): string {
  return join(homedir(), '.cache', 'signals-runtime', module.cache, versionOf(module), name);
}

export function hasProgram(program: string, ...args: readonly string[]): boolean {
  return spawnSync(program, args.length > 0 ? args : ['--version'], { stdio: 'ignore' }).error === undefined;
}

/** The path of the program; builds it if it is not there yet. At low priority, one package at a time. */
export function buildProgram(module: GoModule, name: string): string {
  const path = programPath(module, name);
  if (existsSync(path)) return path;
  const version = versionOf(module);
  console.log(`building ${name} ${version}; this takes long, and is done once per machine`);
  mkdirSync(join(path, '..'), { recursive: true });
  const partial = `${path}.${process.pid}.part`;
  const flags = ['-s -w', module.flags?.(version) ?? ''].join(' ').trim();
  const main = module.isProgram === true ? module.path : `${module.path}/cmd/${name}`;
  const { status, error } = spawnSync(
    'nice',
    ['-n', '19', 'go', 'build', '-p', '1', '-trimpath', '-ldflags', flags, '-o', partial, main],
    { cwd: module.folder, stdio: 'inherit' },
  );
  if (error) throw error;
  if (status !== 0) throw new Error(`${name} could not be built (go ended with ${status})`);
  renameSync(partial, path);
  return path;
}
