import { Agent, request } from 'node:http';
import type { IncomingMessage } from 'node:http';

import { afterEach, expect, test } from 'vitest';

import { listen } from '../../../src/http/server.ts';
import type { Listening } from '../../../src/http/server.ts';

const keeping = new Agent({ keepAlive: true, maxSockets: 1 });
let listening: Listening | undefined;

afterEach(async () => {
  keeping.destroy();
  await listening?.close(1000);
});

/** Answers what the server said of the connection, and whether it is one that was kept. */
async function ask(port: number): Promise<{ connection: string | undefined; kept: boolean }> {
  return await new Promise((resolve, reject) => {
    const outgoing = request({ port, host: '127.0.0.1', agent: keeping }, (response: IncomingMessage) => {
      response.resume().on('end', () => resolve({ connection: response.headers.connection, kept: outgoing.reusedSocket }));
    });
    outgoing.on('error', reject).end();
  });
}

test('clients keep their connections until they are let go, and are served on others from then on', async () => {
  listening = await listen({ handler: (_request, response) => response.end('ok'), endStreams() {} }, 0, '127.0.0.1');
  const { port } = listening;
  expect(await ask(port)).toEqual({ connection: 'keep-alive', kept: false });
  expect(await ask(port)).toEqual({ connection: 'keep-alive', kept: true });
  listening.letGo();
  listening.letGo();
  expect(await ask(port)).toEqual({ connection: 'close', kept: true });
  expect(await ask(port)).toEqual({ connection: 'close', kept: false });
});
