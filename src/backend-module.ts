/** A backend of the user's own, from a module of theirs: any object with the methods of a PubSub, with or without leases. */

import type { PubSub } from './contracts/pubsub.ts';
import { errorMessage, SignalsError } from './core/errors.ts';
import { importModule } from './core/modules.ts';

/** What we call. The contract has more. */
const methods = ['publish', 'subscribe', 'unsubscribe', 'flush'] as const;

/**
 * The module's default export: a PubSub, or a function that makes one (it may take its time).
 *
 * @param specifier a file, relative to `directory`, or the name of a package that is installed there.
 * @param directory default: the working directory.
 * Throws `SIG_BACKEND_MODULE_INVALID`, naming the file and what is missing.
 */
export async function loadBackendModule(specifier: string, directory = process.cwd()): Promise<PubSub> {
  try {
    const { file, exported } = await importModule(specifier, directory);
    const given = exported['default'];
    const pubsub: unknown = typeof given === 'function' ? await (given as () => unknown)() : given;
    const missing = missingIn(pubsub);
    if (missing.length === 0) return pubsub as PubSub;
    throw new Error(
      `the default export of ${file} must be a PubSub, or a function that makes one; it has no ${missing.join(', ')}`,
    );
  } catch (error) {
    throw new SignalsError('SIG_BACKEND_MODULE_INVALID', errorMessage(error), { cause: error });
  }
}

function missingIn(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) return methods;
  return methods.filter(name => typeof (value as Record<string, unknown>)[name] !== 'function');
}
