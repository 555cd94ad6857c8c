import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { loadAgentModule } from '../../../src/agents/module.ts';
import { agentRun, chunksOf, signal } from '../../support/agents/agent-run.ts';

let folder: string;
let written = 0;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'agent-modules-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function module(text: string, name = `agents-${++written}.mjs`): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

const generator = `async function* (run) { yield { type: 'said', text: run.signals[0].contents }; }`;

describe('a module of agents', () => {
  it.each([
    ['a default function is called after its file', `export default ${generator}`, 'greeter.mjs', ['greeter']],
    ['named functions are called after themselves', `export const one = ${generator}; export const two = ${generator};`, undefined, ['one', 'two']],
    ['an object gives ids to functions', `export default { a: ${generator}, 'b-c': ${generator} };`, undefined, ['a', 'b-c']],
    ['a named object does too', `export const agents = { a: ${generator} };`, undefined, ['a']],
    ['a definition has its own id', `export default { id: 'own', name: 'Own', run: ${generator} };`, undefined, ['own']],
    ['a default export hides helpers', `export const version = 3; export default { a: ${generator} };`, undefined, ['a']],
    ['CommonJS works as well', `module.exports = { a: ${generator} };`, 'common.cjs', ['a']],
    ['so does TypeScript', `export const typed = ${generator.replace('(run)', '(run: any)')};`, 'typed.mts', ['typed']],
  ])('%s', async (_what, text, name, ids) => {
    const agents = await loadAgentModule(module(text, name));
    expect(agents.map(agent => agent.id)).toEqual(ids);
    for (const agent of agents) expect(await chunksOf(agent.run, agentRun())).toEqual([{ type: 'said', text: 'hello' }]);
  });

  it('a definition keeps its own this, name and description', async () => {
    const [agent] = await loadAgentModule(
      module(`export default { id: 'x', name: 'X', description: 'd', word: 'mine', async *run() { yield { type: this.word }; } };`),
    );
    expect(agent).toMatchObject({ id: 'x', name: 'X', description: 'd' });
    expect(await chunksOf(agent!.run, agentRun())).toEqual([{ type: 'mine' }]);
  });

  it('a Mastra agent and a Mastra instance are told by their shape', async () => {
    const like = `class Like {
      constructor(id, name) { Object.assign(this, { id, name }); }
      getDescription() { return 'like ' + this.name; }
      async stream(messages, { runId, memory }) {
        const id = this.id;
        return { fullStream: (async function* () { yield { type: 'text-delta', runId, payload: { id, messages, memory } }; })() };
      }
    }`;
    const one = await loadAgentModule(module(`${like}; export const agent = new Like('a-id', 'A');`));
    expect(one).toMatchObject([{ id: 'a-id', name: 'A', description: 'like A' }]);
    expect(await chunksOf(one[0]!.run, agentRun())).toMatchObject([
      { payload: { id: 'a-id', messages: [{ role: 'user', content: 'hello' }], memory: { thread: 'thread-1', resource: 'user-1' } } },
    ]);
    const instance = `${like}; const all = { x: new Like('x-id', 'X'), y: new Like('y-id', 'Y') };`;
    for (const method of ['listAgents', 'getAgents']) {
      const agents = await loadAgentModule(module(`${instance} export const mastra = new (class { ${method}() { return all; } })();`));
      expect(agents.map(agent => agent.id)).toEqual(['x-id', 'y-id']);
    }
  });

  it.each([
    ['a main', { main: 'index.js' }, 'my-agents'],
    ['neither main nor exports', {}, 'my-agents'],
    ['one export', { exports: './index.js' }, 'my-agents'],
    ['an export for import only', { exports: { '.': { require: './no.cjs', import: { types: './no.d.ts', default: './index.js' } } } }, 'my-agents'],
    ['an export of its own name', { exports: { './agents': './index.js' } }, 'my-agents/agents'],
    ['a scope', { main: './index.js' }, '@my/agents'],
  ])('a package with %s is found by its name', async (_what, manifest, specifier) => {
    const home = join(folder, `home-${++written}`);
    const name = specifier.startsWith('@') ? specifier : 'my-agents';
    const packageFolder = join(home, 'node_modules', name);
    mkdirSync(packageFolder, { recursive: true });
    writeFileSync(join(packageFolder, 'package.json'), JSON.stringify({ name, type: 'module', ...manifest }));
    writeFileSync(join(packageFolder, 'index.js'), `export const packed = ${generator};`);
    expect((await loadAgentModule(specifier, home)).map(agent => agent.id)).toEqual(['packed']);
    expect((await loadAgentModule(join('node_modules', name, 'index.js'), home)).map(agent => agent.id)).toEqual(['packed']);
  });

  it.each([
    ['nothing at all', `const a = 1;`, 'exports nothing'],
    ['a number', `export const limit = 5;`, 'export limit of .* must be a function .* got a number'],
    ['an empty object', `export default {};`, 'export default of .* got an object'],
    ['a class', `export default class Agent {}`, 'export default of .* got a class'],
    ['an array', `export const list = [];`, 'export list of .* got an array'],
    ['null', `export default null;`, 'export default of .* got null'],
    ['one wrong member', `export default { good: ${generator}, bad: 'text' };`, 'export default.bad of .* got a string'],
    ['an instance that lists no agents', `export const mastra = { listAgents() { return { x: { id: 'x' } }; } };`, 'export mastra.x of .* got an object with id'],
    ['a promise', `export default Promise.resolve({});`, 'export default of .* got a promise'],
    ['one id twice', `export const a = { id: 'x', name: 'X', run() {} }; export const b = { ...a };`, '2 agents with the id "x"'],
    ['a syntax error', `export default {`, 'could not be loaded'],
    ['an error of its own', `throw new Error('no key');`, 'could not be loaded: no key'],
  ])('%s is refused with the file, the export and what is allowed', async (_what, text, message) => {
    const file = module(text);
    const failure = await loadAgentModule(file).then(
      () => undefined,
      (error: unknown) => error as Error,
    );
    expect(failure).toMatchObject({ code: 'SIG_AGENT_MODULE_INVALID', message: expect.stringMatching(message) as string });
    expect(failure?.message).toContain(file);
  });

  it('a file or a package that there is not is named', async () => {
    await expect(loadAgentModule('./nowhere.mjs')).rejects.toThrow(/there is no file .*nowhere\.mjs/);
    await expect(loadAgentModule('no-such-package-here')).rejects.toThrow('"no-such-package-here" is neither a file nor a package');
  });

  it('a function that is no agent after all fails its run with a name', async () => {
    const [agent] = await loadAgentModule(module(`export async function late(run) { return []; }`));
    expect(() => agent!.run(agentRun({ signals: [signal('x')] }))).toThrow(
      /export late of .* must return an async iterable of chunks, got a promise/,
    );
  });
});
