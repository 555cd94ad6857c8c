/**
 * A Mastra agent with one tool, for the runtime to run: it is exported, that is all. The runtime sees to it that one pod at a
 * time runs a thread, gives the agent what was sent to it meanwhile, and streams its output to whoever follows the thread.
 */

import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { z } from 'zod';

const orders: Readonly<Record<string, string>> = { '1001': 'shipped on Monday', '1002': 'waiting for payment' };

const orderStatus = createTool({
  id: 'order-status',
  description: 'The state of an order, by its number.',
  inputSchema: z.object({ number: z.string() }),
  outputSchema: z.object({ state: z.string() }),
  execute: async ({ number }) => ({ state: orders[number] ?? 'unknown' }),
});

export const support = new Agent({
  id: 'support',
  name: 'Support',
  description: 'Answers questions on orders.',
  instructions: 'You answer questions on orders. Look orders up; never guess. New messages may arrive while you work: heed them.',
  // Looked up through the provider's own key, here OPENAI_API_KEY.
  model: 'openai/gpt-5-mini',
  tools: { orderStatus },
});
