/** Finds what `import` would load, as seen from somewhere else than this file: modules of the user's own, and what those use. */

import { existsSync, readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { errorMessage } from './errors.ts';

/**
 * The file of `specifier`: a file, relative to `directory`, or the name of a package that is installed there. Throws an `Error`
 * that says what was looked for.
 */
function locateModule(specifier: string, directory: string): string {
  const path = specifier.startsWith('file:') ? fileURLToPath(specifier) : resolve(directory, specifier);
  if (existsSync(path)) return path;
  if (specifier.startsWith('file:') || specifier.startsWith('.') || isAbsolute(specifier)) {
    throw new Error(`there is no file ${path}`);
  }
  const [, name = '', subpath = ''] = /^((?:@[^/]+\/)?[^/]+)(\/.+)?$/.exec(specifier) ?? [];
  const file = findPackageFile(name, `.${subpath}`, join(directory, 'package.json'));
  if (file !== undefined) return file;
  throw new Error(`${JSON.stringify(specifier)} is neither a file nor a package that can be imported from ${directory}`);
}

/** What the module exports, and its file. Throws an `Error` that says what was looked for, or why it could not be loaded. */
export async function importModule(specifier: string, directory: string): Promise<{ file: string; exported: Record<string, unknown> }> {
  const file = locateModule(specifier, directory);
  try {
    return { file, exported: (await import(pathToFileURL(file).href)) as Record<string, unknown> };
  } catch (error) {
    throw new Error(`${file} could not be loaded: ${errorMessage(error)}`, { cause: error });
  }
}

/**
 * The file behind `subpath` (`.` or `./name`) of a package, as seen from the file or folder `from`; `undefined` when there
 * is none. `require.resolve` would find the CommonJS build of packages that have two: a second copy with other classes.
 */
export function findPackageFile(name: string, subpath: string, from: string): string | undefined {
  const manifestFile = manifestOf(name, from);
  if (manifestFile === undefined) return undefined;
  const manifest = JSON.parse(readFileSync(manifestFile, 'utf8')) as { exports?: unknown; main?: string };
  const target = manifest.exports === undefined ? withoutExports(manifest.main, subpath) : exported(manifest.exports, subpath);
  const file = target === undefined ? undefined : join(dirname(manifestFile), target);
  return file !== undefined && existsSync(file) ? file : undefined;
}

function manifestOf(name: string, from: string): string | undefined {
  try {
    return findPackageJSON(name, pathToFileURL(from));
  } catch {
    return undefined; // it throws for what is not installed
  }
}

function withoutExports(main: string | undefined, subpath: string): string | undefined {
  return subpath === '.' ? (main ?? 'index.js') : undefined;
}

function exported(exports: unknown, subpath: string): string | undefined {
  const bySubpath = typeof exports === 'object' && exports !== null && Object.keys(exports).some(key => key.startsWith('.'));
  if (bySubpath) return underConditions((exports as Record<string, unknown>)[subpath]);
  return subpath === '.' ? underConditions(exports) : undefined;
}

/** Conditions of Node's `import`; the first in the package's own order wins. */
const conditions: readonly string[] = ['node', 'import', 'module-sync', 'default'];

function underConditions(target: unknown): string | undefined {
  if (typeof target === 'string') return target;
  if (typeof target !== 'object' || target === null) return undefined;
  for (const [condition, inner] of Object.entries(target)) {
    const found = conditions.includes(condition) ? underConditions(inner) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}
