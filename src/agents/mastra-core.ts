/** Finds the copy of `@mastra/core` that a user's module works with. */

import { pathToFileURL } from 'node:url';

import { findPackageFile } from '../core/modules.ts';
import type { MastraCore } from './mastra-agent.ts';

/** As seen from `file`; `undefined` when there is none (the module may have been bundled with it), or one without signals. */
export async function findMastraCore(file: string): Promise<MastraCore | undefined> {
  const core: Record<string, unknown> = {};
  for (const subpath of ['./signals', './request-context']) {
    const found = findPackageFile('@mastra/core', subpath, file);
    if (found !== undefined) Object.assign(core, await import(pathToFileURL(found).href));
  }
  return isMastraCore(core) ? core : undefined;
}

function isMastraCore(value: object): value is MastraCore {
  const { createSignal, RequestContext } = value as Record<string, unknown>;
  return typeof createSignal === 'function' && typeof RequestContext === 'function';
}
