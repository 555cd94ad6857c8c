/**
 * A process of somebody who runs Mastra's own thread runtime on our Redis backend. Its agent has a model that notes the
 * start and end of each call in Redis. Started and told what to do by `thread-peers.ts`.
 */

import { Agent } from '@mastra/core/agent';
import type { SendAgentSignalAccepted } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { MastraLanguageModelV2Mock, simulateReadableStream } from '@mastra/core/test-utils/llm-mock';
import { Redis } from 'ioredis';

import { until } from '../until.ts';
import { ObservedPubSub } from './observed-pubsub.ts';
import { leaseKeyOf, notesKey, resourceId, threadOf } from './thread-peers.ts';
import type { ModelNote, PeerAnswer, PeerCommand, PeerConfig, Sent } from './thread-peers.ts';

const config = JSON.parse(process.argv[2] ?? '{}') as PeerConfig;
const redis = new Redis(config.url);
/** How long a model call takes at most, beyond what it waits for. */
const maxWorkMs = 10;

/** Signals of which this process's runtime knows, by their text. */
const known = new Set<string>();
/** By thread, the signals that must be known before a model call ends, so that none can come too late for its run. */
const awaited = new Map<string, readonly string[]>();

const pubsub = new ObservedPubSub({ url: config.url, keyPrefix: config.keyPrefix }, event => {
  const data = event.data as { type?: string; signal?: { contents?: unknown } } | undefined;
  if (data?.type === 'signal-enqueued' && typeof data.signal?.contents === 'string') known.add(data.signal.contents);
});

async function note(entry: Omit<ModelNote, 'process' | 'owner'>): Promise<void> {
  const owner = (await redis.get(leaseKeyOf(config.keyPrefix, entry.thread))) ?? undefined;
  const full: ModelNote = { ...entry, process: process.pid, ...(owner === undefined ? {} : { owner }) };
  await redis.rpush(notesKey, JSON.stringify(full));
}

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };

const model = new MastraLanguageModelV2Mock({
  doStream: async ({ prompt, abortSignal }) => {
    const texts = JSON.stringify(prompt).match(/thread-\d+\/[\w-]+/g) ?? [];
    const thread = threadOf(texts[0] ?? '');
    await note({ thread, event: 'start', texts: [...new Set(texts)] });
    const complete = () => abortSignal?.aborted || (awaited.get(thread) ?? []).every(text => known.has(text));
    await until(`${thread} has its signals`, complete, 60_000, 5);
    await new Promise(resolve => setTimeout(resolve, Math.random() * maxWorkMs));
    await note({ thread, event: 'end', texts: [] });
    const parts = [
      { type: 'stream-start', warnings: [] },
      { type: 'text-start', id: 't' },
      { type: 'text-delta', id: 't', delta: `answered ${texts.at(-1) ?? ''}` },
      { type: 'text-end', id: 't' },
      { type: 'finish', finishReason: 'stop', usage },
    ];
    return { stream: simulateReadableStream({ chunks: parts as never[], chunkDelayInMs: 0 }) };
  },
});

const agent = new Agent({ id: 'peer', name: 'Peer', instructions: 'answer', model, maxRetries: 0 });
const mastra = new Mastra({ agents: { peer: agent }, pubsub, logger: false });
const peer = mastra.getAgent('peer');

/**
 * One after the other: what a process sends to a thread while its own first signal waits for the lease is dropped by
 * Mastra when that lease turns out to be another's.
 */
async function send({ thread, texts, awaiting }: Extract<PeerCommand, { do: 'send' }>): Promise<Sent[]> {
  awaited.set(thread, awaiting);
  const sent: Sent[] = [];
  for (const text of texts) {
    const { accepted } = peer.sendSignal({ type: 'user', contents: text }, { resourceId, threadId: thread });
    const answer = await accepted;
    if (answer.action === 'wake') void answer.output.consumeStream();
    known.add(text);
    sent.push(sentAs(text, answer));
  }
  return sent;
}

async function queue({ thread, texts }: Extract<PeerCommand, { do: 'queue' }>): Promise<Sent[]> {
  const sent: Sent[] = [];
  for (const text of texts) {
    const answer = await peer.queueMessage(text, { resourceId, threadId: thread }).accepted;
    known.add(text);
    sent.push(sentAs(text, answer));
  }
  return sent;
}

function sentAs(text: string, answer: SendAgentSignalAccepted): Sent {
  return { text, action: answer.action, ...('runId' in answer ? { runId: answer.runId } : {}) };
}

const views = new Map<string, string[]>();
const subscriptions = new Map<string, Awaited<ReturnType<typeof peer.subscribeToThread>>>();

async function watch(thread: string): Promise<void> {
  const subscription = await peer.subscribeToThread({ resourceId, threadId: thread });
  subscriptions.set(thread, subscription);
  const seen: string[] = [];
  views.set(thread, seen);
  void (async () => {
    for await (const chunk of subscription.stream) seen.push(chunk.type === 'text-delta' ? chunk.payload.text : chunk.type);
  })();
}

async function obey(command: PeerCommand): Promise<unknown> {
  switch (command.do) {
    case 'send':
      return await send(command);
    case 'queue':
      return await queue(command);
    case 'watch':
      await watch(command.thread);
      break;
    case 'seen':
      return views.get(command.thread) ?? [];
    case 'abort':
      return subscriptions.get(command.thread)?.abort() ?? false;
    case 'transfers':
      return pubsub.transfers;
  }
  return undefined;
}

process.on('message', (message: { id: number; command: PeerCommand }) => {
  const answer = (reply: Omit<PeerAnswer, 'id'>) => void process.send?.({ id: message.id, ...reply });
  obey(message.command).then(
    value => answer({ value }),
    (error: unknown) => answer({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
});
process.on('disconnect', () => process.exit(0));
