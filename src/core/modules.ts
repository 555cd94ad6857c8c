/** Finds what `import` would load of a package, as seen from somewhere else than this file. */

import { existsSync, readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

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
