import { setImmediate } from 'node:timers/promises';

import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import type { SourceTrouble } from '../../../src/contracts/lifecycle.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { ApiClient } from '../../../src/kubernetes/api-client.ts';
import { parseList, parseWatchLine } from '../../../src/kubernetes/config-map.ts';
import { ConfigMapSource, defaultTiming } from '../../../src/kubernetes/config-map-source.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { until } from '../../support/until.ts';
import { FakeApiServer, refuse } from './fake-api-server.ts';

const minute = 60_000;

let server: FakeApiServer;
let clock: FakeClock;
let source: ConfigMapSource | undefined;
let fed: Record<string, string>[];
let troubles: SourceTrouble[];
let logs: string[];

const logger: Logger = {
  debug() {},
  info: message => void logs.push(`info: ${message}`),
  warn: message => void logs.push(`warn: ${message}`),
  error: message => void logs.push(`error: ${message}`),
};

beforeEach(async () => {
  server = new FakeApiServer();
  await server.start();
  clock = new FakeClock();
  source = undefined;
  fed = [];
  troubles = [];
  logs = [];
});

afterEach(async () => {
  await source?.stop();
  await server.stop();
  expect(clock.pendingTimers, 'timers left behind').toBe(0);
});

function follow(options: { random?: () => number; token?: () => string } = {}): ConfigMapSource {
  const api = new ApiClient({ loadConfig: () => server.config(options.token), clock });
  source = new ConfigMapSource({
    api, namespace: 'chat', name: 'settings', clock, logger,
    feed: values => void fed.push({ ...values }),
    count: trouble => void troubles.push(trouble),
    ...(options.random && { random: options.random }),
  });
  return source;
}

const last = () => fed.at(-1);
const countOf = (trouble: SourceTrouble) => troubles.filter(other => other === trouble).length;
const watching = () => until('the watch stands', () => server.openWatches === 1);

/** Time passes in steps; between them sockets get their turn. */
async function pass(durationMs: number, stepMs = 1000): Promise<void> {
  for (let passed = 0; passed < durationMs; passed += stepMs) {
    await clock.advance(stepMs);
    for (let turn = 0; turn < 4; turn++) await setImmediate();
  }
}

/** Time passes slowly enough for the server to answer, until something is so. Answers how much passed, ms. */
async function passUntil(what: string, condition: () => boolean, stepMs = 250): Promise<number> {
  const startedMs = clock.monotonicMs();
  await until(what, async () => {
    if (!condition()) await clock.advance(stepMs);
    return condition();
  });
  return clock.monotonicMs() - startedMs;
}

describe('a ConfigMap that is followed', () => {
  test('each edit lands once, a deletion takes all values away, and a new one brings them back', async () => {
    server.edit('settings', { TTL: '1' });
    server.edit('other', { TTL: '9' });
    await follow().firstRead;
    expect(fed).toEqual([{ TTL: '1' }]);
    await watching();
    server.edit('settings', { TTL: '2', DRIFT: '3' });
    server.edit('settings', undefined);
    server.edit('settings', { TTL: '4' });
    await until('all are there', () => fed.length === 4);
    expect(fed).toEqual([{ TTL: '1' }, { TTL: '2', DRIFT: '3' }, {}, { TTL: '4' }]);
    expect(troubles).toEqual([]);
  });

  test('it is asked for by its name only, from where the list ended, with bookmarks', async () => {
    server.edit('settings', { TTL: '1' });
    await follow().firstRead;
    await watching();
    const [list, watch] = server.requests;
    expect(list?.path).toBe('/api/v1/namespaces/chat/configmaps');
    expect(Object.fromEntries(list?.query ?? [])).toEqual({ fieldSelector: 'metadata.name=settings' });
    expect(Object.fromEntries(watch?.query ?? [])).toMatchObject({
      fieldSelector: 'metadata.name=settings', watch: 'true', allowWatchBookmarks: 'true', resourceVersion: '101',
    });
  });

  test('one that is not there yet is nothing wrong, and counts from the moment that it is', async () => {
    await follow().firstRead;
    await watching();
    expect(fed).toEqual([]);
    server.edit('settings', { TTL: '1' });
    await until('it is read', () => fed.length === 1);
    expect(logs.filter(line => line.startsWith('warn'))).toEqual([]);
  });

  test('values that did not change are not given again when it is read anew', async () => {
    server.edit('settings', { TTL: '1' });
    await follow().firstRead;
    await watching();
    const timer = setInterval(() => server.bookmark(), 1);
    await passUntil('it was read anew', () => server.lists() === 3, 5000);
    clearInterval(timer);
    expect(fed).toEqual([{ TTL: '1' }]);
  });

  test.each([[0, 4 * minute], [0.999_999, 6 * minute]])('it is read anew after 5 minutes give or take a fifth (drawn: %d)', async (drawn, dueMs) => {
    await follow({ random: () => drawn }).firstRead;
    await watching();
    const said = new Set<number>();
    const passedMs = await passUntil('it was read anew', () => {
      const minuteNow = Math.floor(clock.monotonicMs() / minute);
      if (!said.has(minuteNow)) server.bookmark();
      said.add(minuteNow);
      return server.lists() === 2;
    }, 5000);
    expect(Math.abs(passedMs - dueMs)).toBeLessThanOrEqual(20_000);
    expect(countOf('silent')).toBe(0);
  });
});

describe('a watch that is not to be trusted', () => {
  test('a change that no watch told of is found by reading again, and counted', async () => {
    server.edit('settings', { TTL: '1' });
    await follow().firstRead;
    await watching();
    server.edit('settings', { TTL: '2' }, true);
    await passUntil('it is found', () => last()?.['TTL'] === '2', 5000);
    expect(countOf('missed')).toBe(1);
    expect(logs.some(line => line.includes('no watch had told of it'))).toBe(true);
  });

  test('also one whose watch was heard all the while, until it was due', async () => {
    server.edit('settings', { TTL: '1' });
    await follow().firstRead;
    await watching();
    server.edit('settings', { TTL: '2' }, true);
    const timer = setInterval(() => server.bookmark(), 1);
    await passUntil('it is found', () => last()?.['TTL'] === '2', 5000);
    clearInterval(timer);
    expect(troubles).toEqual(['missed']);
  });

  test('one that says nothing for longer than bookmarks allow is cut off, and another made', async () => {
    await follow().firstRead;
    await watching();
    const passedMs = await passUntil('it is given up', () => countOf('silent') === 1, 2000);
    expect(passedMs).toBeGreaterThanOrEqual(defaultTiming.silenceMs - 2000);
    expect(passedMs).toBeLessThan(defaultTiming.silenceMs + 10_000);
    await passUntil('there is another', () => server.watches() === 2 && server.openWatches === 1);
  });

  test.each([
    ['garbage', 'not json at all'],
    ['half a line', '{"type":"MODIFIED","object":{"metadata":{"name":"settings"},"da'],
    ['another object', '{"type":"MODIFIED","object":{"kind":"Secret","metadata":{"name":"other"}}}'],
    ['values that are no text', '{"type":"MODIFIED","object":{"metadata":{"name":"settings"},"data":{"TTL":5}}}'],
    ['an unknown event', '{"type":"SURPRISE","object":{"metadata":{"name":"settings"}}}'],
  ])('%s is counted, and what it may have meant is read', async (_what, line) => {
    server.edit('settings', { TTL: '1' });
    await follow().firstRead;
    await watching();
    server.edit('settings', { TTL: '2' }, true);
    server.say(line);
    await passUntil('the change is read', () => last()?.['TTL'] === '2');
    expect(countOf('unparsable')).toBe(1);
    expect(fed).toEqual([{ TTL: '1' }, { TTL: '2' }]);
  });

  test.each([
    ['as the answer', (() => {
      server.override = (request, response) => request.query.has('watch') && refuse(response, 410, 'too old resource version');
    })],
    ['as an event', (() => {
      server.override = (request, response) => {
        if (!request.query.has('watch')) return false;
        response.end(`${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old' } })}\n`);
        return true;
      };
    })],
    ['in that it ends at once', (() => {
      server.override = (request, response) => {
        if (!request.query.has('watch')) return false;
        response.end();
        return true;
      };
    })],
  ])('410 on every watch (%s) makes no storm, and edits land all the same', async (_how, begin) => {
    begin();
    server.edit('settings', { TTL: '1' });
    await follow().firstRead;
    await pass(10 * minute);
    // At most one list and one watch for each of the first delays, then every 15 seconds.
    expect(server.lists()).toBeLessThanOrEqual(8 + (10 * minute) / (defaultTiming.longestDelayMs / 2));
    expect(server.watches()).toBeLessThanOrEqual(server.lists());
    expect(server.lists()).toBeGreaterThan(10);
    server.edit('settings', { TTL: '2' });
    const passedMs = await passUntil('the edit lands', () => last()?.['TTL'] === '2');
    expect(passedMs).toBeLessThanOrEqual(defaultTiming.longestDelayMs + 1000);
    expect(logs.length).toBeLessThanOrEqual(1);
    expect(countOf('missed')).toBe(0);
  });

  test('410 is believed at once, also from a server that leaves the connection open', async () => {
    server.edit('settings', { TTL: '1' });
    await follow().firstRead;
    await watching();
    server.edit('settings', { TTL: '2' }, true);
    server.say(JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old' } }));
    const passedMs = await passUntil('the change is read', () => last()?.['TTL'] === '2');
    expect(passedMs).toBeLessThanOrEqual(defaultTiming.firstDelayMs + 1000);
    // The watch had said that it knows no more: nothing was kept back.
    expect(troubles).toEqual(['expired']);
  });

  test('no line and no answer makes reading throw', () => {
    fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), text => {
      parseWatchLine(text, 'settings');
      parseWatchLine(`{"type":"MODIFIED","object":${text}}`, 'settings');
    }));
    fc.assert(fc.property(fc.anything(), answer => void parseList(answer, 'settings')));
  });
});

describe('an API server that is away', () => {
  test.each([
    ['refuses', async () => await server.stop(), async () => await server.start()],
    ['swallows', () => {
      server.override = () => true;
      return Promise.resolve();
    }, () => {
      server.override = () => false;
      return Promise.resolve();
    }],
  ])('case 43: it %s everything for 20 minutes and comes back: edits land again, and there was no storm', async (_how, away, back) => {
    server.edit('settings', { TTL: '1' });
    await follow().firstRead;
    await watching();
    await away();
    const before = troubles.length;
    await pass(20 * minute);
    const failures = troubles.length - before;
    expect(failures).toBeGreaterThan(20);
    expect(failures).toBeLessThanOrEqual(8 + (20 * minute) / (defaultTiming.longestDelayMs / 2));
    expect(logs.filter(line => line.startsWith('warn'))).toHaveLength(1);
    expect(fed).toEqual([{ TTL: '1' }]);

    server.edit('settings', { TTL: '2' }, true);
    await back();
    const passedMs = await passUntil('the edit of meanwhile lands', () => last()?.['TTL'] === '2');
    // What hung when it came back has to be given up first.
    expect(passedMs).toBeLessThanOrEqual(defaultTiming.longestDelayMs + 11_000);
    expect(countOf('missed')).toBe(0);
    await passUntil('the watch stands', () => server.openWatches === 1);
    server.edit('settings', { TTL: '3' });
    await until('the next edit lands', () => last()?.['TTL'] === '3');
    await until('it was said', () => logs.at(-1) === 'info: settings are read from the ConfigMap again');
  });

  test('without permission that is said once, and once it is given the settings are read', async () => {
    server.edit('settings', { TTL: '1' });
    server.override = (_request, response) => refuse(response, 403, 'configmaps is forbidden');
    await follow().firstRead;
    await pass(10 * minute);
    expect(fed).toEqual([]);
    expect(logs).toHaveLength(1);
    expect(server.requests.length).toBeLessThanOrEqual(8 + (10 * minute) / (defaultTiming.longestDelayMs / 2));
    server.override = () => false;
    await passUntil('it is read', () => fed.length === 1, 2000);
  });

  test('a server that asks for time gets it', async () => {
    server.override = (_request, response) => refuse(response, 429, 'too many requests', { 'retry-after': '20' });
    await follow().firstRead;
    await pass(19_000);
    expect(server.requests).toHaveLength(1);
    await passUntil('it is asked again', () => server.requests.length === 2);
  });

  test('a rotated token is used from the next request on', async () => {
    let token = 'old';
    let accepted = 'old';
    server.override = (request, response) => request.token !== accepted && refuse(response, 401, 'Unauthorized');
    server.edit('settings', { TTL: '1' });
    await follow({ token: () => token }).firstRead;
    await watching();
    token = accepted = 'new';
    server.edit('settings', { TTL: '2' }, true);
    server.say('end of that watch');
    await passUntil('it goes on with the new one', () => last()?.['TTL'] === '2');
    expect(countOf('failed')).toBe(0);
  });

  test('stopping ends it at once, whatever it waits for', async () => {
    await follow().firstRead;
    await watching();
    await source?.stop();
    await until('its connections are closed', () => server.openConnections === 0);

    server.override = () => true;
    const hung = follow();
    await until('it asked', () => server.openConnections === 1);
    await hung.stop();
    await until('its connections are closed', () => server.openConnections === 0);
  });
});
