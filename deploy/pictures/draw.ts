/**
 * Takes the pictures of the README from a running system: `npm run pictures`. Some four minutes.
 *
 * - trace.png         one trace on Jaeger's own page
 * - overview.svg      the dashboard Overview, and
 * - ownership.svg     part of Ownership, as their panels' queries are answered; Grafana is not what draws them
 *
 * Needs chromium and prometheus (Debian's packages), a built Jaeger (`JAEGER_TESTS=1` builds it), and in `JAEGER_UI` the folder of
 * a build of Jaeger's page of the same version (github.com/jaegertracing/jaeger-ui); without the last two there is no trace.png.
 *
 * - system.ts     what is looked at, and what happens to it
 * - browser.ts    a page as a picture
 * - board.ts, chart.ts   a dashboard as a picture
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { jaegerBinary } from '../../test/support/jaeger.ts';
import { until } from '../../test/support/until.ts';
import { drawBoard } from './board.ts';
import { takePicture } from './browser.ts';
import { System } from './system.ts';

const ofOwnership = ['Leases held, by pod', 'Why holding ended', 'Renewal headroom', 'Time without an owner', 'Taken over, by pod', 'Lease operations'];

const file = (name: string) => join(import.meta.dirname, name);

async function main(): Promise<void> {
  const jaeger = jaegerBinary();
  if (jaeger === undefined) throw new Error('the pictures need a built Jaeger');
  const system = await System.start(jaeger);
  try {
    system.startTraffic(8);
    await sleep(60_000);
    const traceId = await system.conversation();
    await sleep(50_000);
    await system.deploy('a');
    await sleep(40_000);
    const span = { from: Math.round(system.startedAt), to: Math.round(Date.now() / 1000) };
    const request = { prometheus: system.prometheus.url, span, marks: system.marks };
    writeFileSync(file('overview.svg'), await drawBoard({ ...request, board: 'overview' }));
    writeFileSync(file('ownership.svg'), await drawBoard({ ...request, board: 'ownership', only: ofOwnership }));
    await drawTrace(system, traceId);
  } finally {
    await system.stop();
  }
}

async function drawTrace({ jaeger }: System, traceId: string): Promise<void> {
  if (!jaeger.hasPage) return console.log('NOT DRAWN: trace.png; JAEGER_UI names no build of Jaeger\'s page');
  await until('the trace is whole', async () => (await jaeger.trace(traceId)).some(({ name }) => name === 'lease.release'));
  // The second of three: the one that was taken over.
  const row = `[...document.querySelectorAll('.span-row')].filter(row => row.textContent.includes('thread.run'))[1]`;
  const png = await takePicture({
    url: `${jaeger.url}/trace/${traceId}`,
    width: 1280,
    height: 1270,
    before: `localStorage.setItem('spanNameColumnWidth', '0.36')`,
    steps: [
      `${row} !== undefined`,
      `(${row}.querySelector('.span-view, .span-name').click(), true)`,
      `document.querySelector('.detail-row') !== null`,
      `(document.querySelector('.detail-row .AccordianKeyValues--header').click(), true)`,
      `document.querySelector('.detail-row .KeyValueTable') !== null`,
    ],
  });
  writeFileSync(file('trace.png'), png);
}

await main();
