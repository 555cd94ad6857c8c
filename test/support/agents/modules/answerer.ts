/**
 * What a user would mount: an agent of Mastra. Its model takes a moment, then answers each message that it was not shown
 * before with that message's own text, and notes in Redis which it was shown. `.../wait` has no answer: that call of the model
 * goes on until it is aborted.
 */

import { Agent } from '@mastra/core/agent';
import { MastraLanguageModelV2Mock, simulateReadableStream } from '@mastra/core/test-utils/llm-mock';
import { Redis } from 'ioredis';

/** A call of the model, or its end, in the order in which they happened. */
export interface AnswererNote {
  event: 'start' | 'end';
  process: number;
  thread: string;
  /** The messages that this call answers. */
  texts: readonly string[];
}

export const notesKey = 'answerer-notes';

const workMs = Number(process.env['ANSWERER_WORK_MS'] ?? 0);
const url = process.env['ANSWERER_REDIS_URL'];
const redis = url === undefined ? undefined : new Redis(url);

async function note(event: AnswererNote['event'], texts: readonly string[]): Promise<void> {
  const entry: AnswererNote = { event, process: process.pid, thread: texts[0]?.split('/', 1)[0] ?? '', texts };
  await redis?.rpush(notesKey, JSON.stringify(entry));
}

/** `thread-1/what`, in the messages after the model's last answer. */
function unanswered(prompt: readonly { role: string; content: unknown }[]): string[] {
  const lastAnswer = prompt.findLastIndex(message => message.role === 'assistant');
  return prompt
    .slice(lastAnswer + 1)
    .filter(message => message.role === 'user')
    .flatMap(message => JSON.stringify(message.content).match(/thread-\d+\/[\w-]+/g) ?? []);
}

const model = new MastraLanguageModelV2Mock({
  doStream: async ({ prompt, abortSignal }) => {
    const texts = unanswered(prompt);
    await note('start', texts);
    if (texts.some(text => text.endsWith('/wait'))) await aborted(abortSignal);
    await new Promise(resolve => setTimeout(resolve, workMs));
    await note('end', texts);
    const chunks = [
      { type: 'stream-start' as const, warnings: [] },
      { type: 'text-start' as const, id: 't' },
      ...texts.map(delta => ({ type: 'text-delta' as const, id: 't', delta })),
      { type: 'text-end' as const, id: 't' },
      { type: 'finish' as const, finishReason: 'stop' as const, usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } },
    ];
    return { stream: simulateReadableStream({ chunks, chunkDelayInMs: 0 }) };
  },
});

async function aborted(signal: AbortSignal | undefined): Promise<void> {
  if (!signal) throw new Error('a call that waits needs a signal');
  if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }));
}

const answerer = new Agent({ id: 'answerer', name: 'Answerer', instructions: 'answer', model, maxRetries: 0 });

// With a default export, only that is taken for agents.
export default answerer;
