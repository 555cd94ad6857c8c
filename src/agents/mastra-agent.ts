/**
 * Mastra's agents as ours. They are told by their shape, so that whatever copy and version of `@mastra/core` the user
 * has will do; what only that package can make comes in as `MastraCore`.
 */

import type { AgentDefinition, AgentRun, Chunk } from '../contracts/agent.ts';
import type { Signal } from '../contracts/signal.ts';
import { SignalsError } from '../core/errors.ts';

/** An `Agent` of `@mastra/core`, as far as we use it. */
export interface MastraAgentLike {
  readonly id?: string;
  readonly name?: string;
  getDescription?(): unknown;
  getDefaultOptions?(input?: object): unknown;
  stream(messages: never, options: never): Promise<unknown>;
}

/** What we use of `@mastra/core` itself: `createSignal` of its `/signals`, `RequestContext` of its `/request-context`. */
export interface MastraCore {
  createSignal(input: never): unknown;
  readonly RequestContext: new (entries: never) => unknown;
}

interface Output {
  readonly fullStream: AsyncIterable<Chunk>;
}

/** A step of a run, before its call of the model. */
interface Step {
  readonly messageList: { add(messages: unknown, source: 'input'): unknown };
  /** Ends the answer so far, puts the signal behind it and shows it to readers. Younger versions have it. */
  sendSignal?(signal: never): Promise<unknown>;
  rotateResponseMessageId?(): unknown;
}

/** Options of `stream` that Mastra calls between the steps of a run. */
interface Hooks {
  prepareStep(step: Step): unknown;
  onIterationComplete(iteration: { readonly isFinal: boolean; readonly finishReason: string }): Promise<Verdict | undefined>;
}

interface Verdict {
  readonly continue?: boolean;
}

export function isMastraAgent(value: unknown): value is MastraAgentLike {
  if (typeof value !== 'object' || value === null) return false;
  const { stream, id, name } = value as Record<string, unknown>;
  return typeof stream === 'function' && (isText(id) || isText(name));
}

/**
 * `core` is that of the agent. With it, signals reach the model as Mastra's own thread runtime gives them (type, tag and
 * attributes included); without it, they become plain user messages.
 */
export function mastraAgent(agent: MastraAgentLike, options: { id?: string; core?: MastraCore } = {}): AgentDefinition {
  const id = options.id ?? agent.id ?? agent.name;
  if (!isText(id)) throw new SignalsError('SIG_AGENT_MODULE_INVALID', 'a Mastra agent must have an id or a name');
  const description = agent.getDescription?.();
  return {
    id,
    name: agent.name ?? id,
    ...(isText(description) ? { description } : {}),
    run: run => streamRun(agent, options.core, run),
  };
}

async function* streamRun(agent: MastraAgentLike, core: MastraCore | undefined, run: AgentRun): AsyncIterable<Chunk> {
  const given = optionsOf(run);
  const messages = run.signals.map(signal => messageOf(signal, core));
  const output = (await agent.stream(messages as never, {
    ...given,
    requestContext: requestContextOf(given['requestContext'], core),
    // The run, the thread and the abort are ours to say, whatever the sender put into the options.
    runId: run.runId,
    memory: { ...memoryOf(given), thread: run.thread.threadId, resource: run.thread.resourceId },
    abortSignal: run.abortSignal,
    ...(await withArrivals(agent, core, run)),
  } as never)) as Output;

  let failure: string | undefined;
  for await (const chunk of output.fullStream) {
    if (chunk.type === 'error') failure = failureOf(chunk);
    if (chunk.type === 'finish' && endOf(chunk) !== 'error') failure = undefined; // another model stepped in
    yield chunk;
  }
  // Mastra ends a failed stream like any other. The run must not count as finished.
  if (failure !== undefined && !run.abortSignal.aborted) throw new SignalsError('SIG_RUN_FAILED', failure);
}

/**
 * Signals that arrived meanwhile join the conversation before the next call of the model, and while there are some an answer
 * is not the last one. Those that come too late for that stay unread, for the next run.
 */
async function withArrivals(agent: MastraAgentLike, core: MastraCore | undefined, run: AgentRun): Promise<Hooks> {
  // Ours take the place of the agent's own, so they must call them.
  const own = ((await agent.getDefaultOptions?.({})) ?? {}) as Partial<Hooks>;
  return {
    async prepareStep(step) {
      for (const signal of run.arrivals.drain()) await addArrival(step, signal, core);
      return await own.prepareStep?.(step);
    },
    async onIterationComplete(iteration) {
      const result = await own.onIterationComplete?.(iteration);
      const goOn = iteration.isFinal && !brokenOff.includes(iteration.finishReason) && run.arrivals.size > 0;
      return goOn && result?.continue !== false ? { ...result, continue: true } : result;
    },
  };
}

/**
 * Behind what was answered so far: in one place with the first messages it would stand behind answers that are younger, and the
 * model would answer it over and over.
 */
async function addArrival(step: Step, signal: Signal, core: MastraCore | undefined): Promise<void> {
  if (core && step.sendSignal) {
    await step.sendSignal(acceptable(signal) as never);
    return;
  }
  step.rotateResponseMessageId?.();
  step.messageList.add([messageOf(signal, core)], 'input');
}

/** Ends that another call of the model would not mend. */
const brokenOff: readonly string[] = ['error', 'abort', 'tripwire', 'suspended'];

function messageOf(signal: Signal, core: MastraCore | undefined): unknown {
  if (!core) return { role: 'user', content: signal.contents };
  return core.createSignal(acceptable(signal) as never);
}

const knownTypes: readonly string[] = ['user', 'state', 'reactive', 'notification', 'user-message', 'system-reminder'];
const xmlName = /^[A-Za-z_][A-Za-z0-9_.-]*$/;

/** A type that Mastra does not know is a notification with that type for its tag; anything else of it throws there. */
function acceptable(signal: Signal): Signal {
  if (knownTypes.includes(signal.type)) return signal;
  const tag = xmlName.test(signal.type) ? { tagName: signal.type } : {};
  return { ...tag, ...signal, type: 'notification' };
}

function optionsOf(run: AgentRun): Record<string, unknown> {
  return typeof run.options === 'object' && run.options !== null ? { ...run.options } : {};
}

function memoryOf(options: Record<string, unknown>): object {
  return typeof options['memory'] === 'object' && options['memory'] !== null ? options['memory'] : {};
}

/**
 * It arrives as JSON and Mastra wants its class. Names that start with `mastra__` are what servers use to say who the
 * caller is: from a caller they would open other people's memory.
 */
function requestContextOf(given: unknown, core: MastraCore | undefined): unknown {
  if (typeof given !== 'object' || given === null) return undefined;
  const entries = Object.entries(given).filter(([key]) => !key.startsWith('mastra__'));
  return core ? new core.RequestContext(entries as never) : new Map(entries);
}

function endOf(chunk: Chunk): unknown {
  return (chunk['payload'] as { stepResult?: { reason?: unknown } } | undefined)?.stepResult?.reason;
}

function failureOf(chunk: Chunk): string {
  const error = (chunk['payload'] as { error?: unknown } | undefined)?.error;
  const message = typeof error === 'object' && error !== null ? (error as { message?: unknown }).message : error;
  return isText(message) ? message : 'the agent reported an error';
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
