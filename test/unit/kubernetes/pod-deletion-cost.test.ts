import { setImmediate } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { ApiClient } from '../../../src/kubernetes/api-client.ts';
import { deletionCost, PodDeletionCost } from '../../../src/kubernetes/pod-deletion-cost.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { until } from '../../support/until.ts';
import { FakeApiServer, refuse } from './fake-api-server.ts';

let server: FakeApiServer;
let clock: FakeClock;
let cost: PodDeletionCost | undefined;
let owned: number;
let warnings: string[];

beforeEach(async () => {
  server = new FakeApiServer();
  await server.start();
  clock = new FakeClock();
  cost = undefined;
  owned = 0;
  warnings = [];
});

afterEach(async () => {
  cost?.stop();
  await server.stop();
  expect(clock.pendingTimers, 'timers left behind').toBe(0);
});

function begin(): void {
  cost = new PodDeletionCost({
    api: new ApiClient({ loadConfig: () => server.config(), clock }),
    pod: { namespace: 'chat', podName: 'signals-0' },
    ownedThreads: () => owned,
    clock,
    logger: { debug() {}, info() {}, error() {}, warn: message => void warnings.push(message) },
  });
}

const written = () =>
  server.requests.map(({ body }) => (body as { metadata: { annotations: Record<string, string> } }).metadata.annotations);

async function pass(seconds: number, each: () => void = () => {}): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    each();
    await clock.advance(1000);
    for (let turn = 0; turn < 4; turn++) await setImmediate();
  }
}

describe('the cost of deleting the pod', () => {
  test('grows with the owned threads, in steps', () => {
    expect([0, 1, 2, 3, 4, 7, 8, 1000, 1e6].map(deletionCost)).toEqual([0, 1, 2, 2, 4, 4, 8, 512, 524_288]);
    expect(deletionCost(1e12)).toBeLessThanOrEqual(2 ** 31 - 1);
  });

  test('is written on our pod, at the start and when the step changes', async () => {
    begin();
    await until('it is written', () => server.requests.length === 1);
    owned = 5;
    await pass(31);
    await until('it is written again', () => server.requests.length === 2);
    owned = 6;
    await pass(120);
    expect(server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'PATCH /api/v1/namespaces/chat/pods/signals-0',
      'PATCH /api/v1/namespaces/chat/pods/signals-0',
    ]);
    expect(written().map(annotations => annotations['controller.kubernetes.io/pod-deletion-cost'])).toEqual(['0', '4']);
  });

  test('is written at most every half minute, however the number moves', async () => {
    begin();
    await pass(600, () => (owned = owned === 0 ? 1000 : 0));
    expect(server.requests.length).toBeLessThanOrEqual(21);
  });

  test('without permission that is said once, and tried again only much later', async () => {
    server.override = (_request, response) => refuse(response, 403, 'pods is forbidden');
    begin();
    await until('it is said', () => warnings.length === 1);
    owned = 100;
    await pass(590);
    expect(server.requests).toHaveLength(1);
    server.override = () => false;
    await pass(20);
    await until('it is written', () => written().length === 2);
    expect(warnings).toHaveLength(1);
  });

  test('a failure is tried again', async () => {
    server.override = (_request, response) => refuse(response, 500, 'etcd is away');
    begin();
    await until('it is said', () => warnings.length === 1);
    server.override = () => false;
    await pass(31);
    await until('it is written', () => server.requests.length === 2);
  });
});
