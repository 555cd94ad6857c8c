/** Agents of the user's own, from a module of theirs. */

import { basename, extname } from 'node:path';

import type { Agent, AgentDefinition } from '../contracts/agent.ts';
import { errorMessage, SignalsError } from '../core/errors.ts';
import { importModule } from '../core/modules.ts';
import { findMastraCore } from './mastra-core.ts';
import { isMastraAgent, mastraAgent } from './mastra-agent.ts';
import type { MastraCore } from './mastra-agent.ts';

const allowed =
  'a function (run) => AsyncIterable<chunk>, an agent definition { id, name, run }, a Mastra agent, a Mastra instance, ' +
  'or an object of these by id';

/**
 * The agents that a module exports: those of its default export if it has one, else those of all its named exports. A
 * function is called after its export, a default one after its file.
 *
 * @param specifier a file, relative to `directory`, or the name of a package that is installed there.
 * @param directory default: the working directory.
 * Throws `SIG_AGENT_MODULE_INVALID`, naming the file, the export and what is allowed.
 */
export async function loadAgentModule(specifier: string, directory = process.cwd()): Promise<AgentDefinition[]> {
  const { file, exported } = await importModule(specifier, directory).catch((error: unknown) => {
    throw invalid(errorMessage(error), error);
  });
  const reader = new ModuleReader(file, await findMastraCore(file));
  const agents = reader.read(exported);
  for (const agent of agents) {
    const same = agents.filter(other => other.id === agent.id).length;
    if (same > 1) throw invalid(`${file} has ${same} agents with the id ${JSON.stringify(agent.id)}; ids must differ`);
  }
  return agents;
}

class ModuleReader {
  readonly #file: string;
  readonly #core: MastraCore | undefined;

  constructor(file: string, core: MastraCore | undefined) {
    this.#file = file;
    this.#core = core;
  }

  read(exported: Record<string, unknown>): AgentDefinition[] {
    if ('default' in exported) return this.#agents('default', basename(this.#file, extname(this.#file)), exported['default']);
    const names = Object.keys(exported);
    if (names.length === 0) throw invalid(`${this.#file} exports nothing; it must export ${allowed}`);
    return names.flatMap(name => this.#agents(name, name, exported[name]));
  }

  #agents(name: string, id: string, value: unknown): AgentDefinition[] {
    const one = this.#agent(name, id, value);
    if (one) return [one];
    const members = membersOf(value);
    if (!members || Object.keys(members).length === 0) throw this.#wrong(name, value);
    return Object.entries(members).map(([key, member]) => {
      const agent = this.#agent(`${name}.${key}`, key, member);
      if (!agent) throw this.#wrong(`${name}.${key}`, member);
      return agent;
    });
  }

  #agent(name: string, id: string, value: unknown): AgentDefinition | undefined {
    if (isDefinition(value)) return { ...value, run: this.#checked(`${name}.run`, run => value.run(run)) };
    if (isMastraAgent(value)) return mastraAgent(value, this.#core ? { core: this.#core } : {});
    if (isPlainFunction(value)) return { id, name: id, run: this.#checked(name, value as Agent) };
    return undefined;
  }

  /** Whether a function is an agent shows only when it is called; then it must at least be said clearly. */
  #checked(name: string, run: Agent): Agent {
    return given => {
      const output: unknown = run(given);
      if (isAsyncIterable(output)) return output as ReturnType<Agent>;
      const message = `export ${name} of ${this.#file} must return an async iterable of chunks, got ${kindOf(output)}`;
      throw new SignalsError('SIG_RUN_FAILED', message);
    };
  }

  #wrong(name: string, value: unknown): SignalsError {
    return invalid(`export ${name} of ${this.#file} must be ${allowed}, got ${kindOf(value)}`);
  }
}

/** A Mastra instance, or agents by id. */
function membersOf(value: unknown): Record<string, unknown> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { listAgents, getAgents } = value as Record<string, unknown>;
  const list = typeof listAgents === 'function' ? listAgents : getAgents;
  if (typeof list === 'function') return list.call(value) as Record<string, unknown>;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null ? (value as Record<string, unknown>) : undefined;
}

function isDefinition(value: unknown): value is AgentDefinition {
  if (typeof value !== 'object' || value === null) return false;
  const { id, name, run } = value as Record<string, unknown>;
  return typeof id === 'string' && id !== '' && typeof name === 'string' && typeof run === 'function';
}

function isPlainFunction(value: unknown): boolean {
  return typeof value === 'function' && !Function.prototype.toString.call(value).startsWith('class');
}

function isAsyncIterable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'function') return isPlainFunction(value) ? 'a function' : 'a class';
  if (typeof value !== 'object') return `a ${typeof value}`;
  const fields = Object.keys(value).slice(0, 5).join(', ');
  return `${value instanceof Promise ? 'a promise' : 'an object'}${fields ? ` with ${fields}` : ''}`;
}

function invalid(message: string, cause?: unknown): SignalsError {
  return new SignalsError('SIG_AGENT_MODULE_INVALID', message, { cause });
}
