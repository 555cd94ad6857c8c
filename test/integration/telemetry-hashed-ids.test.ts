/**
 * Ids of threads and resources may name people. With `TRACE_HASH_IDS` nothing that a pod exports has them: no span, no metric, no
 * line of its log. What it answers to those who ask for a thread stays plain. The same without the setting shows where they are
 * else, and so that this test can tell.
 */

import { createHash } from 'node:crypto';

import { expect, test } from 'vitest';

import { threadLeaseKey } from '../../src/contracts/thread.ts';
import { Fleet } from '../support/fleet.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import type { ReceivedSpan } from '../support/otlp-receiver.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

/** With characters that are percent-encoded in keys and paths. */
const thread = { resourceId: 'ada@example.org', threadId: 'plans of ada, 4711' };
const plain = /ada(@|%40)example|plans( |%20|\+)of/i;

const hash = (id: string) => createHash('sha256').update(id).digest('hex').slice(0, 16);

interface Exported {
  readonly spans: readonly ReceivedSpan[];
  readonly metrics: string;
  readonly logs: readonly string[];
  /** Of `/v1`, about the thread. */
  readonly answer: string;
}

/** A thread's life on one pod, its bad days included. */
async function live(env: Record<string, string>): Promise<Exported> {
  const receiver = await startOtlpReceiver();
  const fleet = await Fleet.start();
  try {
    const pod = await fleet.pod('a', {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_BSP_SCHEDULE_DELAY: '50',
      TRACE_RENEWALS: '1',
      LOG_LEVEL: 'debug',
      AGENT_MODULE: new URL('../support/agents/telling-agent.ts', import.meta.url).pathname,
      MASTRA_AGENT_THREAD_LEASE_TTL_MS: '3000',
      MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS: '300',
      MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: '100',
      ...env,
    });
    const ended = (reason: string) =>
      until(`a run has ${reason}`, () => receiver.spans().some(span => span.name === 'thread.run' && span.attributes['end_reason'] === reason));
    for (const [text, reason] of [['publish', 'finished'], ['fail', 'failed']] as const) {
      expect(await send(pod, 'queue-message', text)).toBe(200);
      await ended(reason);
    }
    expect(await send(pod, 'send-message', 'x'.repeat(300_000))).toBe(413);

    // One that loses its lease, with the next one waiting behind it.
    expect(await send(pod, 'queue-message', 'write')).toBe(200);
    await until('a renewal was seen', () => receiver.spans().some(span => span.name === 'lease.renew'));
    await fleet.client.set(`mastra:topic:lease:${threadLeaseKey(thread)}`, 'thief.1/run', 'PX', 300, 'XX');
    await ended('lease_lost');
    await until('it is back', async () => (await fleet.owner(thread))?.startsWith('a.'));
    expect(await send(pod, 'queue-message', 'next')).toBe(200);

    const path = `${encodeURIComponent(thread.resourceId)}/${encodeURIComponent(thread.threadId)}`;
    const answer = await fetch(`${pod.url}/v1/threads/${path}`).then(response => response.text());
    for (const wrong of [`/v1/threads/${path}/none`, `/api/memory/threads/${encodeURIComponent(thread.threadId)}`]) {
      expect((await fetch(pod.url + wrong)).status).toBe(404);
    }
    const metrics = await fetch(`${pod.metricsUrl}/metrics`).then(response => response.text());
    pod.kill('SIGTERM');
    expect(await pod.exited()).toBe(0);
    return { spans: receiver.spans(), metrics: metrics + JSON.stringify(receiver.metrics()), logs: [...pod.logs(), pod.stderr()], answer };
  } finally {
    await fleet.stop();
    await receiver.stop();
  }
}

async function send(pod: RuntimeProcess, path: string, message: string): Promise<number> {
  const response = await fetch(`${pod.url}/api/agents/telling/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ message, ...thread }),
  });
  await response.text();
  return response.status;
}

/** Names of spans, without what is different each time, that tell an id. */
function telling(spans: readonly ReceivedSpan[]): string[] {
  const names = spans.filter(span => plain.test(JSON.stringify(span))).map(span => span.name.split(' ')[0] ?? '');
  return [...new Set(names)].sort();
}

const messages = (lines: readonly string[]) => [...new Set(lines.filter(line => plain.test(line)).map(line => (JSON.parse(line) as { msg: string }).msg))].sort();

test('without the setting, spans and logs have ids, and metrics have none', async () => {
  const { spans, metrics, logs, answer } = await live({});
  expect(telling(spans)).toEqual([
    'GET', 'ack', 'lease.acquire', 'lease.release', 'lease.renew', 'lease.transfer', 'process', 'send', 'signal.route', 'thread.run',
  ]);
  expect(messages(logs).length).toBeGreaterThan(0);
  expect(metrics).not.toMatch(plain);
  expect(answer).toMatch(plain);
});

test('with it nothing that is exported has one, and an id that is known can still be looked for', async () => {
  const { spans, metrics, logs, answer } = await live({ TRACE_HASH_IDS: 'true' });
  expect(spans.filter(span => plain.test(JSON.stringify(span)))).toEqual([]);
  expect(logs.filter(line => plain.test(line))).toEqual([]);
  expect(metrics).not.toMatch(plain);
  expect(answer).toMatch(plain);

  const of = (name: string) => spans.filter(span => span.name === name);
  for (const span of [...of('signal.route'), ...of('thread.run')]) {
    expect(span.attributes).toMatchObject({ 'signals.thread.id': hash(thread.threadId), 'signals.resource.id': hash(thread.resourceId) });
  }
  const key = hash(threadLeaseKey(thread));
  for (const name of ['lease.acquire', 'lease.renew', 'lease.release']) {
    expect(of(name).map(span => span.attributes['signals.lease.key'])).toContain(key);
  }
  expect(logs.join('\n')).toContain(key);
  const failed = of('thread.run').find(span => span.attributes['end_reason'] === 'failed');
  expect(failed?.status.message).toBe(`${hash(thread.resourceId)} has no conversation "${hash(thread.threadId)}"`);
  const topic = hash(`talk.${thread.resourceId}.${thread.threadId}`);
  expect(spans.map(span => span.name)).toEqual(expect.arrayContaining([`send ${topic}`, `process ${topic}`]));
});
