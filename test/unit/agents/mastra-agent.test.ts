/** The real `Agent` and `Mastra` of `@mastra/core` with a model that answers from a script; no network. */

import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { RequestContext } from '@mastra/core/request-context';
import { createSignal } from '@mastra/core/signals';
import { MastraLanguageModelV2Mock, simulateReadableStream } from '@mastra/core/test-utils/llm-mock';
import { createTool } from '@mastra/core/tools';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

import { loadAgentModule } from '../../../src/agents/module.ts';
import { isMastraAgent, mastraAgent } from '../../../src/agents/mastra-agent.ts';
import type { MastraAgentLike } from '../../../src/agents/mastra-agent.ts';
import { agentRun, chunksOf, signal } from '../../support/agents/agent-run.ts';

const core = { createSignal, RequestContext };

type Part = Record<string, unknown> & { type: string };
type Script = (call: number) => Part[] | Promise<Part[]>;

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
const says = (text: string): Part[] => [
  { type: 'stream-start', warnings: [] },
  { type: 'text-start', id: 't' },
  ...text.split(' ').map(delta => ({ type: 'text-delta', id: 't', delta })),
  { type: 'text-end', id: 't' },
  { type: 'finish', finishReason: 'stop', usage },
];
const calls = (toolName: string): Part[] => [
  { type: 'stream-start', warnings: [] },
  { type: 'tool-call', toolCallId: 'c-1', toolName, input: '{}' },
  { type: 'finish', finishReason: 'tool-calls', usage },
];

/** What the model was shown, per call, as texts. */
function scripted(script: Script, chunkDelayInMs = 0): { model: MastraLanguageModelV2Mock; prompts: string[][] } {
  const prompts: string[][] = [];
  const model = new MastraLanguageModelV2Mock({
    doStream: async ({ prompt }) => {
      prompts.push(prompt.filter(message => message.role === 'user').map(message => textOf(message.content)));
      const chunks = await script(prompts.length);
      return { stream: simulateReadableStream({ chunks: chunks as never[], chunkDelayInMs }) };
    },
  });
  return { model, prompts };
}

function textOf(content: readonly { type: string }[]): string {
  return content.map(part => ('text' in part ? String(part.text) : part.type)).join('');
}

function agentWith(model: MastraLanguageModelV2Mock, options: object = {}) {
  return new Agent({ id: 'helper', name: 'Helper', description: 'helps', instructions: 'help', model, maxRetries: 0, ...options } as never);
}

describe('an agent of Mastra', () => {
  it('is told by its shape, and keeps its id, name and description', () => {
    const agent = agentWith(scripted(() => says('x')).model);
    expect(isMastraAgent(agent)).toBe(true);
    for (const other of [undefined, null, () => {}, {}, { stream() {} }, { id: 'x' }, new Mastra({})]) {
      expect(isMastraAgent(other)).toBe(false);
    }
    expect(mastraAgent(agent, { core })).toMatchObject({ id: 'helper', name: 'Helper', description: 'helps' });
  });

  it('streams its own chunks, untouched, under our run id', async () => {
    const definition = mastraAgent(agentWith(scripted(() => says('hello world')).model), { core });
    const chunks = await chunksOf(definition.run, agentRun());
    expect(chunks.map(chunk => chunk.type)).toEqual(
      expect.arrayContaining(['start', 'step-start', 'text-start', 'text-delta', 'text-end', 'step-finish', 'finish']),
    );
    expect(chunks.filter(chunk => chunk.type === 'text-delta')).toEqual([
      { type: 'text-delta', runId: 'run-1', from: 'AGENT', payload: { id: 't', text: 'hello' } },
      { type: 'text-delta', runId: 'run-1', from: 'AGENT', payload: { id: 't', text: 'world' } },
    ]);
    expect(JSON.parse(JSON.stringify(chunks.at(-1)))).toMatchObject({ type: 'finish', payload: { stepResult: { reason: 'stop' } } });
  });

  it('sees each signal as Mastra’s own runtime shows it, types that Mastra does not know included', async () => {
    const { model, prompts } = scripted(() => says('x'));
    const signals = [
      signal('hi'),
      signal('who', { attributes: { from: 'Ann' } }),
      signal('ping', { type: 'notification' }),
      signal('late', { type: 'reactive' }),
      signal('shipped', { type: 'order-update', attributes: { n: 1 } }),
      signal('odd', { type: 'no tag!' }),
      signal([{ type: 'text', text: 'look' }, { type: 'file', data: 'aGk=', mediaType: 'image/png' }]),
    ];
    await chunksOf(mastraAgent(agentWith(model), { core }).run, agentRun({ signals }));
    expect(prompts).toEqual([
      [
        'hi',
        '<user from="Ann">who</user>',
        '<notification>ping</notification>',
        '<system-reminder>late</system-reminder>',
        '<order-update n="1">shipped</order-update>',
        '<notification>odd</notification>',
        'lookfile',
      ],
    ]);
  });

  it('without Mastra’s own functions sees plain messages', async () => {
    const { model, prompts } = scripted(() => says('x'));
    await chunksOf(mastraAgent(agentWith(model)).run, agentRun({ signals: [signal('hi'), signal('ping', { type: 'notification' })] }));
    expect(prompts).toEqual([['hi', 'ping']]);
  });

  it('sees what arrives while it uses a tool at the next call of the model, and its own prepareStep still runs', async () => {
    const { model, prompts } = scripted(call => (call === 1 ? calls('work') : says('done')));
    const run = agentRun();
    const steps: number[] = [];
    const work = createTool({
      id: 'work',
      description: 'works',
      inputSchema: z.object({}),
      execute: () => {
        run.arrivals.push(signal('and another thing', { id: 's-2' }));
        return Promise.resolve({ ok: true });
      },
    });
    const prepareStep = ({ stepNumber }: { stepNumber: number }) => void steps.push(stepNumber);
    const agent = agentWith(model, { tools: { work }, defaultOptions: { prepareStep } });
    await chunksOf(mastraAgent(agent, { core }).run, run);
    expect(prompts).toEqual([['hello'], ['hello', 'and another thing']]);
    expect(run.arrivals.taken.map(taken => taken.id)).toEqual(['s-2']);
    expect(steps).toEqual([0, 1]);
  });

  it('answers what arrives while it speaks within the same run, and finishes once', async () => {
    const { model, prompts } = scripted(call => says(`answer ${call}`));
    const run = agentRun();
    const types: string[] = [];
    for await (const chunk of mastraAgent(agentWith(model), { core }).run(run)) {
      types.push(chunk.type);
      const arrived = run.arrivals.taken.length + run.arrivals.size;
      if (chunk.type === 'text-delta' && arrived < 2) run.arrivals.push(signal(`and ${arrived + 1}`));
    }
    expect(prompts.at(-1)).toEqual(['hello', 'and 1', 'and 2']);
    expect(run.arrivals.size).toBe(0);
    expect(types.filter(type => type === 'finish')).toHaveLength(1);
  });

  it.each([['with', core], ['without', undefined]])('sees each arrival behind the answers before it, %s Mastra’s own functions', async (_with, own) => {
    const shown: string[] = [];
    const model = new MastraLanguageModelV2Mock({
      doStream: ({ prompt }) => {
        const said = prompt.flatMap(({ role, content }) => (role === 'system' ? [] : [textOf(content as readonly { type: string }[])]));
        shown.push(said.join(', '));
        return Promise.resolve({ stream: simulateReadableStream({ chunks: says(`A${shown.length}`) as never[] }) });
      },
    });
    const run = agentRun();
    let arrived = 0;
    for await (const chunk of mastraAgent(agentWith(model), own ? { core: own } : {}).run(run)) {
      if (chunk.type === 'text-delta' && arrived < 2) run.arrivals.push(signal(`Q${++arrived + 1}`));
    }
    expect(shown).toEqual(['hello', 'hello, A1, Q2', 'hello, A1, Q2, A2, Q3']);
  });

  it.each([
    ['its steps are used up', { maxSteps: 1 }],
    ['its own rule says that it is over', { onIterationComplete: () => ({ continue: false }) }],
  ])('leaves for the next run what arrives when %s', async (_why, defaultOptions) => {
    const { model, prompts } = scripted(() => says('a b'));
    const run = agentRun();
    for await (const chunk of mastraAgent(agentWith(model, { defaultOptions }), { core }).run(run)) {
      if (chunk.type === 'text-delta' && run.arrivals.size === 0) run.arrivals.push(signal('too late'));
    }
    expect(prompts).toHaveLength(1);
    expect(run.arrivals.taken).toEqual([]);
    expect(run.arrivals.size).toBe(1);
  });

  it('stops when it is told to', async () => {
    const controller = new AbortController();
    const endless = Array.from({ length: 10_000 }, (_, n) => ({ type: 'text-delta', id: 't', delta: `${n} ` }));
    const { model } = scripted(() => [{ type: 'stream-start', warnings: [] }, { type: 'text-start', id: 't' }, ...endless], 1);
    const types: string[] = [];
    for await (const chunk of mastraAgent(agentWith(model), { core }).run(agentRun({ abortSignal: controller.signal }))) {
      types.push(chunk.type);
      if (chunk.type === 'text-delta') controller.abort();
    }
    expect(types.filter(type => type === 'text-delta').length).toBeLessThan(100);
    expect(types).toContain('abort');
  });

  it('runs a thread again after a run on it was aborted, or left by its reader', async () => {
    const { model } = scripted(call => (call <= 2 ? [...says('x').slice(0, 2), ...says('y '.repeat(1000)).slice(2)] : says('z')), 1);
    const definition = mastraAgent(agentWith(model), { core });
    for (const leave of ['abort', 'break']) {
      const controller = new AbortController();
      for await (const chunk of definition.run(agentRun({ runId: leave, abortSignal: controller.signal }))) {
        if (chunk.type !== 'text-delta') continue;
        controller.abort();
        if (leave === 'break') break;
      }
    }
    const chunks = await chunksOf(definition.run, agentRun({ runId: 'next' }));
    expect(chunks).toContainEqual({ type: 'text-delta', runId: 'next', from: 'AGENT', payload: { id: 't', text: 'z' } });
  });

  it('whose model failed, but whose spare model answered, has not failed', async () => {
    const agent: MastraAgentLike = {
      id: 'x',
      stream: () => {
        const chunks = [
          { type: 'error', payload: { error: new Error('busy') } },
          { type: 'finish', payload: { stepResult: { reason: 'stop' } } },
        ];
        return Promise.resolve({ fullStream: ReadableStream.from(chunks) });
      },
    };
    expect(await chunksOf(mastraAgent(agent, { core }).run, agentRun())).toHaveLength(2);
  });

  it('that fails puts out its error, and then the run has failed', async () => {
    const { model } = scripted(() => Promise.reject(new Error('no more tokens')));
    const types: string[] = [];
    const failure = await (async () => {
      for await (const chunk of mastraAgent(agentWith(model), { core }).run(agentRun())) types.push(chunk.type);
    })().catch((error: unknown) => error);
    expect(types).toContain('error');
    expect(failure).toMatchObject({ code: 'SIG_RUN_FAILED', message: 'no more tokens' });
  });
});

describe('what the sender says about the run', () => {
  /** Keeps the options that the agent was called with, and then lets it run. */
  function watched(agent: MastraAgentLike): { agent: MastraAgentLike; options: Record<string, unknown>[] } {
    const options: Record<string, unknown>[] = [];
    const stream = agent.stream.bind(agent);
    const watching: MastraAgentLike = {
      id: 'helper',
      stream: (messages, given) => {
        options.push(given);
        return stream(messages, given);
      },
    };
    return { agent: watching, options };
  }

  it('is handed on, but run, thread and abort are ours', async () => {
    const { agent, options } = watched(agentWith(scripted(() => says('x')).model));
    const memory = { thread: 'of-somebody-else', resource: 'else', options: { lastMessages: 3 } };
    const run = agentRun({ options: { maxSteps: 2, runId: 'stolen', abortSignal: {}, memory } });
    await chunksOf(mastraAgent(agent, { core }).run, run);
    expect(options).toMatchObject([
      { maxSteps: 2, runId: 'run-1', memory: { thread: 'thread-1', resource: 'user-1', options: { lastMessages: 3 } } },
    ]);
    expect(options[0]?.['abortSignal']).toBe(run.abortSignal);
  });

  it('becomes a request context, without the names by which servers say who somebody is', async () => {
    const { agent, options } = watched(agentWith(scripted(() => says('x')).model));
    const requestContext = { user: 'U', mastra__resourceId: 'admin', mastra__threadId: 'x' };
    await chunksOf(mastraAgent(agent, { core }).run, agentRun({ options: { requestContext } }));
    const context = options[0]?.['requestContext'] as RequestContext;
    expect(context).toBeInstanceOf(RequestContext);
    expect([...context.entries()]).toEqual([['user', 'U']]);
  });
});

describe('a Mastra instance', () => {
  it('gives its agents when a module exports it, and they see signals as Mastra shows them', async () => {
    const agents = await loadAgentModule('test/support/agents/modules/mastra.ts');
    expect(agents).toMatchObject([{ id: 'listener', name: 'Listener' }]);
    const chunks = await chunksOf(agents[0]!.run, agentRun({ signals: [signal('a'), signal('b', { type: 'notification' })] }));
    expect(chunks).toContainEqual({ type: 'text-delta', runId: 'run-1', from: 'AGENT', payload: { id: 't', text: 'heard 2' } });
    // Only the package's own `createSignal` makes these.
    expect(chunks.map(chunk => chunk.type)).toEqual(expect.arrayContaining(['data-user-message', 'data-signal']));
  });
});
