/** Finds the copy of `@mastra/core` that a user's module works with. */

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import type { MastraCore } from './mastra-agent.ts';

interface Manifest {
  readonly exports?: Readonly<Record<string, { readonly import?: { readonly default?: string } } | undefined>>;
}

/** As seen from `file`; `undefined` when there is none, or one without signals. */
export async function findMastraCore(file: string): Promise<MastraCore | undefined> {
  const require = createRequire(file);
  let manifestFile: string;
  try {
    manifestFile = require.resolve('@mastra/core/package.json');
  } catch {
    return undefined; // not installed there: the module may have been bundled with it
  }
  const manifest = require(manifestFile) as Manifest;
  // `require.resolve` would give the CommonJS build, a second copy whose classes are not those of the user's imports.
  const load = async (subpath: string): Promise<Record<string, unknown>> => {
    const target = manifest.exports?.[subpath]?.import?.default;
    if (target === undefined) return {};
    return (await import(pathToFileURL(join(dirname(manifestFile), target)).href)) as Record<string, unknown>;
  };
  const core = { ...(await load('./signals')), ...(await load('./request-context')) };
  return isMastraCore(core) ? core : undefined;
}

function isMastraCore(value: object): value is MastraCore {
  const { createSignal, RequestContext } = value as Record<string, unknown>;
  return typeof createSignal === 'function' && typeof RequestContext === 'function';
}
