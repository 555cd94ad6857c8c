/** A remote agent on a real port, answering as a test says. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SeenRequest {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  /** The client went before the answer was whole. */
  left: boolean;
}

export async function startRemoteAgent(answer: (response: ServerResponse, call: number) => void | Promise<void>) {
  const seen: SeenRequest[] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let text = '';
    for await (const bytes of request) text += String(bytes);
    const one: SeenRequest = { url: request.url ?? '', headers: request.headers, body: JSON.parse(text), left: false };
    seen.push(one);
    response.once('close', () => (one.left = !response.writableFinished));
    await answer(response, seen.length);
  };
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/agent`,
    seen,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
