/** Connections to a real Redis, behind a proxy that fails: what their metrics say. */

import { metrics } from '@opentelemetry/api';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { RedisBackend } from '../../src/redis/backend.ts';
import { limits } from '../contract/mailbox.harness.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';
import { startHarness } from '../unit/telemetry/harness.ts';
import type { Harness } from '../unit/telemetry/harness.ts';

let server: RedisServer;
let proxy: TcpProxy;
let harness: Harness;
let backend: RedisBackend;

beforeEach(async () => {
  server = await startRedis();
  proxy = await startTcpProxy(server.port);
  harness = startHarness();
  metrics.setGlobalMeterProvider(harness.meterProvider);
  backend = new RedisBackend({ source: { url: proxy.url }, keyPrefix: 'connections', limits });
});
afterEach(async () => {
  await backend.close(1000);
  metrics.disable();
  await harness.stop();
  await proxy.stop();
  await server.stop();
});

async function values(metric: string, ...by: string[]): Promise<Record<string, unknown>> {
  const points = await harness.points(metric);
  return Object.fromEntries(points.map(({ attributes, value }) => [by.map(name => attributes[name]).join(' '), value]));
}
const status = () => values('signals.redis.connection.status', 'role', 'state');
const reconnects = () => values('signals.redis.reconnects', 'role');
const inState = (state?: string) =>
  Object.fromEntries(
    ['commands', 'subscriber'].flatMap(role =>
      ['connecting', 'ready', 'reconnecting'].map(each => [`${role} ${each}`, each === state ? 1 : 0]),
    ),
  );

const hearsNothing = { onArrival() {}, onAbort() {}, onOrphan() {}, onResync() {} };
const connected = () => Promise.all([backend.connect(), backend.mailbox.listen('a', hearsNothing)]);

test('each connection is in one state, and those that came back are counted', async () => {
  const both = connected();
  // All of it is there from the start, as 0, so that a first event shows as one.
  expect(Object.keys(await status())).toEqual(Object.keys(inState()));
  expect(await reconnects()).toEqual({ commands: 0, subscriber: 0 });
  await both;
  expect(await status()).toEqual(inState('ready'));

  proxy.down();
  await until('both are made again', async () => {
    const now = await status();
    return now['commands reconnecting'] === 1 && now['subscriber reconnecting'] === 1;
  });
  expect(await status()).toEqual(inState('reconnecting'));
  expect(await reconnects()).toEqual({ commands: 0, subscriber: 0 });

  proxy.restore();
  await until('both are back', async () => Object.values(await reconnects()).every(count => count === 1));
  expect(await status()).toEqual(inState('ready'));

  await backend.close(1000);
  await until('none is left', async () => Object.values(await status()).every(count => count === 0));
});

test('a store that was never there is being connected to, not connected to again', async () => {
  proxy.down();
  const both = connected();
  await until('it tries', async () => (await status())['commands connecting'] === 1);
  expect(await reconnects()).toEqual({ commands: 0, subscriber: 0 });
  proxy.restore();
  await both;
  expect(await status()).toEqual(inState('ready'));
  expect(await reconnects()).toEqual({ commands: 0, subscriber: 0 });
});
