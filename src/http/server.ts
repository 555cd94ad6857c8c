/** A port, and how it is closed within a limit. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { RequestListener, Server } from 'node:http';
import type { Socket } from 'node:net';

export interface HttpApp {
  readonly handler: RequestListener;
  /** Ends the responses that would otherwise never end. */
  endStreams(): void;
}

export interface Listening {
  readonly port: number;
  /**
   * From now on each answer ends its connection. A client that keeps its own would stay with an instance that is about to go,
   * and might send its next request just as that closes.
   */
  letGo(): void;
  /**
   * No new connections; streams end; requests that are on may finish within `graceMs`, then their sockets are cut.
   * Never rejects, and a second call waits for the first.
   */
  close(graceMs: number): Promise<void>;
}

/** Rejects when the port cannot be had. Port 0: any free one. */
export async function listen(app: HttpApp, port: number, host: string): Promise<Listening> {
  const server = createServer(app.handler);
  // Longer than the idle limit of common load balancers (60 s): they must not meet a socket that we are about to close.
  server.keepAliveTimeout = 65_000;
  server.headersTimeout = 30_000;
  const sockets = new Set<Socket>();
  server.on('connection', socket => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  let closing: Promise<void> | undefined;
  let lettingGo = false;
  const letGo = () => {
    // Ahead of the app: it may answer at once.
    if (!lettingGo) server.prependListener('request', (_request, response) => response.setHeader('Connection', 'close'));
    lettingGo = true;
  };
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    letGo,
    close(graceMs) {
      letGo();
      return (closing ??= close(server, sockets, app, graceMs));
    },
  };
}

async function close(server: Server, sockets: ReadonlySet<Socket>, app: HttpApp, graceMs: number): Promise<void> {
  const closed = new Promise<void>(resolve => server.close(() => resolve()));
  app.endStreams();
  const sweep = setInterval(() => server.closeIdleConnections(), 20);
  const cut = setTimeout(() => server.closeAllConnections(), graceMs);
  // Clients open sockets ahead of need. To Node those are not idle, and they would cost the whole grace.
  for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  await closed;
  clearInterval(sweep);
  clearTimeout(cut);
}
