/** What a user would mount: a Mastra instance with an agent in it. Its model answers from a script. */

import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { MastraLanguageModelV2Mock, simulateReadableStream } from '@mastra/core/test-utils/llm-mock';

const model = new MastraLanguageModelV2Mock({
  doStream: ({ prompt }) => {
    const asked = prompt.filter(message => message.role === 'user').length;
    const chunks = [
      { type: 'stream-start' as const, warnings: [] },
      { type: 'text-start' as const, id: 't' },
      { type: 'text-delta' as const, id: 't', delta: `heard ${asked}` },
      { type: 'text-end' as const, id: 't' },
      { type: 'finish' as const, finishReason: 'stop' as const, usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } },
    ];
    return Promise.resolve({ stream: simulateReadableStream({ chunks }) });
  },
});

const listener = new Agent({ id: 'listener', name: 'Listener', instructions: 'listen', model });

export const mastra = new Mastra({ agents: { listener } });
