/** The real `@mastra/client-js` against the real routes, in front of a stand-in service that runs no agents. */

import { MastraClient } from '@mastra/client-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { SignalsError } from '../../src/core/errors.ts';
import { listen } from '../../src/http/server.ts';
import { startHttp } from '../support/agents/http-rig.ts';
import type { HttpRig } from '../support/agents/http-rig.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user-1', threadId: 'thread-1' };

let rig: HttpRig;
let client: MastraClient;
beforeEach(async () => {
  rig = await startHttp();
  client = new MastraClient({ baseUrl: rig.url, retries: 2, backoffMs: 1, maxBackoffMs: 1 });
});
afterEach(() => rig.close());

describe('the client of Mastra', () => {
  it('finds the agents', async () => {
    expect(await client.listAgents()).toMatchObject({ echo: { name: 'Echo', tools: {}, hasBrowser: false } });
    expect(await client.getAgent('echo').details()).toMatchObject({ name: 'Echo', description: 'Says back what it was told.' });
  });

  it('sends messages, queued messages and signals, and is told the run', async () => {
    const agent = client.getAgent('echo');
    const sent = await agent.sendMessage({ ...thread, message: 'one' });
    expect(sent).toMatchObject({ accepted: true, runId: 'run-1', signal: { type: 'user', contents: 'one' }, action: 'wake' });
    await agent.queueMessage({ ...thread, message: { contents: 'two', attributes: { n: 2 } } });
    await agent.sendSignal({ ...thread, signal: { id: 's-3', type: 'notification', contents: [{ type: 'text', text: 'three' }] } });
    await agent.sendMessage({ runId: 'run-1', message: 'four', ifActive: { behavior: 'persist' } });
    expect(rig.service.sent).toMatchObject([
      { target: { thread }, turn: 'current', signal: { contents: 'one' } },
      { target: { thread }, turn: 'next', signal: { contents: 'two', attributes: { n: 2 } } },
      { turn: 'current', signal: { id: 's-3', type: 'notification', contents: [{ type: 'text', text: 'three' }] } },
      { target: { runId: 'run-1' }, ifActive: { behavior: 'persist' } },
    ]);
  });

  it('says how runs should be started', async () => {
    const streamOptions = { maxSteps: 2, requestContext: { user: 'U' } };
    await client.getAgent('echo').sendMessage({ ...thread, message: 'x', ifIdle: { behavior: 'wake', streamOptions } });
    expect(rig.service.sent).toMatchObject([{ ifIdle: { behavior: 'wake' }, runOptions: streamOptions }]);
  });

  it('reads a thread chunk by chunk, heartbeats and ids notwithstanding', async () => {
    const quick = await startHttp({ heartbeatMs: 2 });
    const subscription = await new MastraClient({ baseUrl: quick.url }).getAgent('echo').subscribeToThread(thread);
    const chunks: unknown[] = [];
    const reading = subscription.processDataStream({ onChunk: chunk => Promise.resolve(void chunks.push(chunk)) });
    const sent = Array.from({ length: 50 }, (_, n) => ({ type: 'text-delta', runId: 'run-1', payload: { text: `n ${n}\n\n` } }));
    for (const chunk of sent) {
      quick.service.put(thread, chunk);
      await new Promise(resolve => setTimeout(resolve, 1)); // room for heartbeats in between
    }
    await until('all came', () => chunks.length >= sent.length);
    expect(chunks).toEqual(sent);
    subscription.unsubscribe();
    await reading;
    await until('the service is told', () => quick.service.openFollows === 0);
    await quick.close();
  });

  it('comes back after a shutdown of its stream when it was told to', async () => {
    const subscription = await client.getAgent('echo').subscribeToThread(thread);
    const chunks: { type: string }[] = [];
    const reading = subscription.processDataStream({
      onChunk: chunk => Promise.resolve(void chunks.push(chunk)),
      reconnect: { delayMs: 1 },
    });
    rig.service.put(thread, { type: 'one' });
    await until('it reads', () => chunks.length === 1);
    const port = Number(new URL(rig.url).port);
    await rig.close();
    const again = await startHttp();
    const listening = await listen(again.app, port, '127.0.0.1');
    again.service.put(thread, { type: 'two' });
    await until('it reads on', () => chunks.some(chunk => chunk.type === 'two'));
    subscription.unsubscribe();
    await reading;
    await listening.close(1000);
    await again.close();
  });

  it('aborts a thread, also through its subscription', async () => {
    expect(await client.getAgent('echo').abortThread({ ...thread, expectedRunId: 'run-1' })).toMatchObject({ aborted: true });
    const subscription = await client.getAgent('echo').subscribeToThread(thread);
    expect(await subscription.abort()).toBe(true);
    subscription.unsubscribe();
    expect(rig.service.aborts).toEqual([
      { thread, expectedRunId: 'run-1' },
      { thread, expectedRunId: undefined },
    ]);
  });

  it('tries again what passes, and not what it did wrong', async () => {
    let tries = 0;
    const answer = (error: SignalsError | undefined) => {
      tries = 0;
      rig.service.onSend = ({ signal }) => {
        if (++tries <= 2 && error) throw error;
        return { action: 'wake', runId: 'r', signal: { ...signal, id: 's', createdAt: '2026-01-02T03:04:05.678Z' }, duplicate: false };
      };
    };
    answer(new SignalsError('SIG_STORE_UNAVAILABLE', 'away'));
    await client.getAgent('echo').sendMessage({ ...thread, message: 'x' });
    expect(tries).toBe(3);
    answer(new SignalsError('SIG_INBOX_FULL', 'full'));
    await expect(client.getAgent('echo').sendMessage({ ...thread, message: 'x' })).rejects.toMatchObject({
      status: 429,
      body: { error: { code: 'SIG_INBOX_FULL', retryable: true } },
    });
    expect(tries).toBe(1);
  });

  it('gets in with its token', async () => {
    const guarded = await startHttp({ tokens: ['secret'] });
    const at = (headers: Record<string, string>) => new MastraClient({ baseUrl: guarded.url, headers }).listAgents();
    await expect(at({})).rejects.toMatchObject({ status: 401 });
    expect(await at({ Authorization: 'Bearer secret' })).toHaveProperty('echo');
    await guarded.close();
  });
});
