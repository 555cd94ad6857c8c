import { setImmediate } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { ApiClient } from '../../../src/kubernetes/api-client.ts';
import { EventRecorder } from '../../../src/kubernetes/event-recorder.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { until } from '../../support/until.ts';
import { FakeApiServer, refuse } from './fake-api-server.ts';

let server: FakeApiServer;
let clock: FakeClock;
let recorder: EventRecorder;
let warnings: string[];

beforeEach(async () => {
  server = new FakeApiServer();
  await server.start();
  clock = new FakeClock();
  warnings = [];
  recorder = new EventRecorder({
    api: new ApiClient({ loadConfig: () => server.config(), clock }),
    pod: { namespace: 'chat', podName: 'signals-0', podUid: 'uid-1' },
    instanceId: 'signals-0.abcd',
    clock,
    logger: { debug() {}, info() {}, error() {}, warn: message => void warnings.push(message) },
  });
});

afterEach(async () => {
  await Promise.all([recorder.close(1000), clock.advance(2000)]);
  await server.stop();
  expect(clock.pendingTimers, 'timers left behind').toBe(0);
});

const created = () => server.of('POST').map(request => request.body as Record<string, unknown>);
const counted = () => server.of('PATCH').map(request => request.body?.['series'] as { count: number });

/** Whatever was to be sent by now is. */
async function settle(): Promise<void> {
  let before = -1;
  await until('nothing more is sent', async () => {
    for (let turn = 0; turn < 20; turn++) await setImmediate();
    const quiet = before === server.requests.length;
    before = server.requests.length;
    return quiet;
  });
}

describe('Events', () => {
  test('one is written on our pod, in the words of events.k8s.io', async () => {
    recorder.happened({ type: 'settings_refused', source: 'tuning', problems: ['TTL must be a number, got "x"'] });
    await settle();
    expect(server.requests[0]?.path).toBe('/apis/events.k8s.io/v1/namespaces/chat/events');
    expect(created()).toEqual([
      {
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { name: expect.stringMatching(/^signals-0\.[0-9a-f]{16}$/) as unknown, namespace: 'chat' },
        eventTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/) as unknown,
        reportingController: 'signals-runtime',
        reportingInstance: 'signals-0.abcd',
        regarding: { apiVersion: 'v1', kind: 'Pod', namespace: 'chat', name: 'signals-0', uid: 'uid-1' },
        type: 'Warning',
        reason: 'SettingsRefused',
        action: 'Reload',
        note: 'Settings of the tuning ConfigMap are refused, the last good ones stay: TTL must be a number, got "x".',
      },
    ]);
  });

  test('never one per lease: ten thousand lost leases are one Event and a count', async () => {
    for (let lease = 0; lease < 10_000; lease++) recorder.happened({ type: 'lease_lost' });
    await settle();
    expect(created()).toHaveLength(1);
    expect(counted()).toEqual([]);
    await clock.advance(30_000);
    await settle();
    expect(created()).toHaveLength(1);
    expect(counted().map(series => series.count)).toEqual([10_000]);
  });

  test('what goes on for an hour is counted at most every half minute', async () => {
    for (let second = 0; second < 3600; second++) {
      recorder.happened({ type: 'stale_owner_fenced' });
      await clock.advance(1000);
      for (let turn = 0; turn < 3; turn++) await setImmediate();
    }
    await settle();
    expect(created()).toHaveLength(1);
    expect(counted().length).toBeLessThanOrEqual(120);
    expect(counted().at(-1)?.count).toBeGreaterThan(3500);
  });

  test('the same thing after a quiet while is a new Event', async () => {
    recorder.happened({ type: 'store_lost' });
    await settle();
    await clock.advance(7 * 60_000);
    recorder.happened({ type: 'store_lost' });
    await settle();
    expect(created().map(event => event['reason'])).toEqual(['StoreUnreachable', 'StoreUnreachable']);
  });

  test('many different things are not all sent: a bound holds, and what is left out is counted', async () => {
    for (let edit = 0; edit < 500; edit++) {
      recorder.happened({ type: 'settings_refused', source: 'tuning', problems: [`wrong in way ${edit}`] });
      if (edit % 20 === 0) await settle();
    }
    await settle();
    expect(created().length).toBeLessThanOrEqual(20);
    expect(created().length).toBeGreaterThan(5);
    expect(recorder.dropped).toBe(500 - created().length);
    await clock.advance(60_000);
    recorder.happened({ type: 'store_lost' });
    await settle();
    expect(created().at(-1)?.['reason']).toBe('StoreUnreachable');
  });

  test('without permission that is said once, and tried again only much later', async () => {
    server.override = (_request, response) => refuse(response, 403, 'events is forbidden');
    recorder.happened({ type: 'started', backend: 'redis' });
    recorder.happened({ type: 'store_lost' });
    await settle();
    const asked = server.requests.length;
    for (let time = 0; time < 50; time++) recorder.happened({ type: 'lease_lost' });
    await clock.advance(590_000);
    recorder.happened({ type: 'lease_lost' });
    await settle();
    expect(server.requests.length).toBe(asked);
    expect(asked).toBe(1);
    await clock.advance(20_000);
    recorder.happened({ type: 'lease_lost' });
    await settle();
    expect(server.requests.length).toBe(2);
    expect(warnings).toHaveLength(1);

    // An API server that just started refuses everybody: that must not be the end of it.
    server.override = () => false;
    await clock.advance(610_000);
    recorder.happened({ type: 'store_lost' });
    await settle();
    expect(created().at(-1)?.['reason']).toBe('StoreUnreachable');
  });

  test('a server that answers nothing holds up neither who tells nor the end', async () => {
    server.override = () => true;
    recorder.happened({ type: 'drain_started', ownedThreads: 3, timeoutMs: 25_000 });
    await until('it was asked', () => server.requests.length === 1);
    const closed = recorder.close(1000);
    await clock.advance(1000);
    await closed;
  });

  test('a failure is not the end: the next time is told with all that was not', async () => {
    server.override = (_request, response) => refuse(response, 500, 'etcd is away');
    recorder.happened({ type: 'store_lost' });
    await until('it was tried', () => warnings.length === 1);
    server.override = () => false;
    recorder.happened({ type: 'store_lost' });
    await clock.advance(30_000);
    await settle();
    expect(created().at(-1)).toMatchObject({ reason: 'StoreUnreachable', series: { count: 2 } });
  });

  test('an Event that the server has forgotten is written anew', async () => {
    recorder.happened({ type: 'lease_lost' });
    await settle();
    server.override = (request, response) => request.method === 'PATCH' && refuse(response, 404, 'not found');
    recorder.happened({ type: 'lease_lost' });
    await clock.advance(30_000);
    await settle();
    expect(created()).toHaveLength(2);
    expect(created()[1]?.['metadata']).not.toEqual(created()[0]?.['metadata']);
  });

  test('a note is never longer than the server takes', async () => {
    recorder.happened({ type: 'settings_refused', source: 'tuning', problems: ['é'.repeat(5000)] });
    await settle();
    expect(Buffer.byteLength(String(created()[0]?.['note']))).toBeLessThanOrEqual(1024);
  });

  test('the end of a drain is told before the recorder is closed', async () => {
    recorder.happened({ type: 'drain_ended', stopped: 0, abandoned: 0 });
    await recorder.close(1000);
    expect(created().map(event => event['reason'])).toEqual(['Drained']);
  });
});
