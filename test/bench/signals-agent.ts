/**
 * The module that benchmarks mount on their pods (`bench-pods.ts`): agents and, beside them in the same process, a plain express handler.
 * Tells the benchmark when requests came in and when agents, or the handler, had them.
 */

import { subscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';

import express from 'express';

import type { AgentRun, Chunk } from '../../src/contracts/agent.ts';

/** The header that names the signal of a request. */
export const idHeader = 'x-signal-id';

export type Mark =
  /** `atUs` is of a clock that all processes of the machine share. */
  | { what: 'accepted' | 'started'; id: string; atUs: number }
  | { what: 'listening'; process: number; port: number }
  /** `bytes` in use after a collection. */
  | { what: 'heap'; id: string; bytes: number };

const marks: Mark[] = [];
const socketPath = process.env['BENCH_SOCKET'];

function tell(mark: Mark): void {
  marks.push(mark);
}

function note(what: 'accepted' | 'started', id: string): void {
  tell({ what, id, atUs: Number(process.hrtime.bigint() / 1000n) });
}

function listen(path: string): void {
  const socket = connect(path);
  socket.on('error', () => {});
  // In bundles, so that telling costs what is measured as little as may be; and no timer while there is nothing to tell.
  setInterval(() => {
    if (marks.length > 0) socket.write(marks.splice(0).map(mark => `${JSON.stringify(mark)}\n`).join(''));
  }, 100);
  subscribe('http.server.request.start', message => {
    const id = (message as { request: IncomingMessage }).request.headers[idHeader];
    if (typeof id === 'string') note('accepted', id);
  });
  const plain = express();
  plain.use(express.json());
  plain.post('/plain', (request, response) => {
    note('started', String(request.headers[idHeader]));
    response.json(request.body);
  });
  const server = plain.listen(0, '127.0.0.1', () => {
    tell({ what: 'listening', process: process.pid, port: (server.address() as AddressInfo).port });
  });
}

if (socketPath !== undefined) listen(socketPath);

/** Its runs end at once. */
async function* brief(run: AgentRun): AsyncGenerator<Chunk> {
  for (const { id } of run.signals) note('started', id);
  yield await Promise.resolve({ type: 'finish', runId: run.runId, payload: {} });
}

/** Its runs wait for more for as long as the pod lives. */
async function* waiting(run: AgentRun): AsyncGenerator<Chunk> {
  for (const { id } of run.signals) note('started', id);
  yield { type: 'start', runId: run.runId };
  for await (const { id } of run.arrivals) note('started', id);
}

/** Its runs last until they are told to stop. */
async function* held(run: AgentRun): AsyncGenerator<Chunk> {
  for (const { id } of run.signals) note('started', id);
  yield { type: 'start', runId: run.runId };
  await new Promise(resolve => run.abortSignal.addEventListener('abort', resolve));
}

/** Tells how much memory the process uses that is not garbage; for processes that were started with `--expose-gc`. */
async function* weighing(run: AgentRun): AsyncGenerator<Chunk> {
  globalThis.gc?.();
  for (const { id } of run.signals) tell({ what: 'heap', id, bytes: process.memoryUsage().heapUsed });
  yield await Promise.resolve({ type: 'finish', runId: run.runId, payload: {} });
}

export default { brief, waiting, held, weighing };
