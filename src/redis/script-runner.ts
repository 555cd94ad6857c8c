/** Runs the Lua files of `scripts/` by their digest, sending the text only to a server that does not have it yet. */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { ChainableCommander } from 'ioredis';

import type { RedisClient } from './connection.ts';

export interface Script {
  readonly name: string;
  readonly text: string;
  readonly sha: string;
}

export type ScriptArgument = string | number;

export interface ScriptCall {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly args: readonly ScriptArgument[];
}

/**
 * Reads `scripts/<name>.lua`. Call it when an object is made, not per command. A line `-- @include <part>` stands for
 * the text of `scripts/include/<part>.lua`: Redis has no modules, and what several scripts must do alike is written once.
 */
export function loadScript(name: string): Script {
  const text = readLua(name);
  return { name, text, sha: createHash('sha1').update(text).digest('hex') };
}

function readLua(path: string): string {
  const text = readFileSync(join(import.meta.dirname, 'scripts', `${path}.lua`), 'utf8');
  return text.replaceAll(/^-- @include ([a-z-]+)$/gm, (_line, part: string) => readLua(`include/${part}`));
}

export async function runScript(client: RedisClient, call: ScriptCall): Promise<unknown> {
  try {
    return await client.evalsha(call.script.sha, call.keys.length, ...call.keys, ...call.args);
  } catch (error) {
    if (!isMissingScript(error)) throw error;
    return await client.eval(call.script.text, call.keys.length, ...call.keys, ...call.args);
  }
}

/**
 * Runs calls whose keys share a slot in one round trip. Answers in their order, each a reply or the error that it got;
 * throws only when the connection failed.
 */
export async function runScripts(client: RedisClient, calls: readonly ScriptCall[]): Promise<(unknown)[]> {
  if (calls.length === 0) return [];
  const pipeline: ChainableCommander = client.pipeline();
  for (const call of calls) pipeline.evalsha(call.script.sha, call.keys.length, ...call.keys, ...call.args);
  const results = (await pipeline.exec()) ?? [];
  return await Promise.all(
    calls.map(async (call, at): Promise<unknown> => {
      const [error, reply] = results[at] ?? [new Error('the pipeline gave no reply'), undefined];
      if (!error) return reply;
      return isMissingScript(error) ? await runScript(client, call).catch((again: unknown) => again) : error;
    }),
  );
}

export function isMissingScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}
