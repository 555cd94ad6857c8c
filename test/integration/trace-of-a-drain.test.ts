/**
 * A thread that a drained pod hands to a peer (case 49): the drain tells what it gave up, and what goes on elsewhere leads back to
 * the signals.
 */

import { expect, test } from 'vitest';

import { Fleet } from '../support/fleet.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import type { ReceivedSpan } from '../support/otlp-receiver.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

const thread = { resourceId: 'user', threadId: 'thread' };
const traceId = '0af7651916cd43dd8448eb211c80319c';

async function queue(pod: RuntimeProcess, message: string): Promise<void> {
  const response = await fetch(`${pod.url}/api/agents/scripted/queue-message`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', traceparent: `00-${traceId}-b7ad6b7169203331-01` },
    body: JSON.stringify({ message, ...thread }),
  });
  expect(response.status).toBe(200);
}

test('a drain shows the hand-over of a thread, and its next run on the peer is linked to its signal', async () => {
  const receiver = await startOtlpReceiver();
  const fleet = await Fleet.start();
  const of = (pod: string) => receiver.spans().filter(span => String(span.resource['service.instance.id']).startsWith(`${pod}.`));
  const named = (pod: string, name: string) => of(pod).filter(span => span.name === name);
  try {
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_BSP_SCHEDULE_DELAY: '50',
      MASTRA_AGENT_THREAD_LEASE_TTL_MS: '10000',
      MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: '500',
    };
    const [a] = await Promise.all([fleet.pod('a', env), fleet.pod('b', env)]);
    await queue(a, 'sleep 5000');
    await fleet.hasRun('sleep 5000');
    await queue(a, 'after it');
    a.kill('SIGTERM');
    expect(await a.exited()).toBe(0);
    await until('both runs on B were seen', () => named('b', 'thread.run').length === 2);

    const only = (spans: readonly ReceivedSpan[]): ReceivedSpan => {
      expect(spans.length).toBe(1);
      return spans[0]!;
    };
    const drain = only(named('a', 'runtime.drain'));
    expect(drain.parentSpanId).toBeUndefined();
    expect(drain.attributes).toMatchObject({ 'signals.drain.abandoned': 0 });
    const transfer = only(named('a', 'lease.transfer'));
    expect(transfer).toMatchObject({ traceId: drain.traceId, parentSpanId: drain.spanId, attributes: { outcome: 'transferred', end_reason: 'transferred' } });
    const acquire = only(named('a', 'lease.acquire').filter(span => span.attributes['outcome'] === 'acquired'));
    const cut = only(named('a', 'thread.run'));
    expect(cut).toMatchObject({ traceId, attributes: { end_reason: 'drained', 'signals.run.attempt': 1 } });

    // No gap, a newer token, and the owner is another.
    const claim = only(named('b', 'lease.acquire').filter(span => span.attributes['outcome'] === 'acquired'));
    const token = (span: ReceivedSpan) => span.attributes['signals.lease.fencing_token'] as number;
    expect(token(claim)).toBeGreaterThan(token(acquire));
    expect(claim.attributes).toMatchObject({ 'signals.lease.unowned_ms': 0 });
    expect(claim.attributes['signals.lease.owner']).toMatch(/^b\./);

    // What was cut short leads to its signal and to its new lease; what waited goes on as if nothing had been.
    const [again, next] = named('b', 'thread.run');
    const routes = named('a', 'signal.route').sort((one, other) => one.startNs - other.startNs);
    expect(again).toMatchObject({ attributes: { 'signals.run.attempt': 2, end_reason: 'finished' } });
    expect(again?.links.map(link => link.spanId)).toEqual([routes[0]?.spanId, claim.spanId]);
    expect(next).toMatchObject({ traceId, parentSpanId: routes[1]?.spanId, attributes: { 'signals.run.attempt': 1 } });
  } finally {
    await fleet.stop();
    await receiver.stop();
  }
});
