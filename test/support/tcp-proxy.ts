/**
 * A TCP proxy with faults, between a client and a server on the loopback. What it does to bytes it does from the moment
 * it is told, to connections that exist and to those that come.
 */

import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';

export interface TcpProxy {
  readonly port: number;
  /** `redis://` at the proxy. */
  readonly url: string;
  readonly connections: number;
  /** Connections accepted since the start. */
  readonly accepted: number;
  /** Ends all connections with a reset; new ones are accepted. */
  cut(): void;
  /** Refuses new connections and ends the ones there are, until `restore`. */
  down(): void;
  /** Nothing gets through in either direction, and nobody is told. New connections are accepted and hear nothing. */
  blackHole(): void;
  /** Requests get through, replies are thrown away. With a number: only that many chunks of replies. */
  dropReplies(chunks?: number): void;
  /** Every chunk is late by this, in each direction. */
  delay(delayMs: number): void;
  /** New connections go to another server. */
  retarget(port: number): void;
  /**
   * No more faults. Connections that lost bytes to a fault are ended: what comes after a gap would be nonsense. So
   * after `blackHole` a client still has to notice by itself, unless it is restored.
   */
  restore(): void;
  stop(): Promise<void>;
}

type Fault = 'none' | 'down' | 'black-hole' | 'drop-replies';

class Link {
  readonly client: Socket;
  readonly server: Socket;
  /** Bytes were thrown away. */
  torn = false;

  constructor(client: Socket, server: Socket) {
    this.client = client;
    this.server = server;
  }

  end(): void {
    this.client.resetAndDestroy();
    this.server.resetAndDestroy();
  }
}

class Proxy implements TcpProxy {
  readonly #server: Server;
  readonly #links = new Set<Link>();
  #port = 0;
  #target: number;
  #fault: Fault = 'none';
  #dropsLeft = Number.POSITIVE_INFINITY;
  #delayMs = 0;
  #accepted = 0;

  constructor(target: number) {
    this.#target = target;
    this.#server = createServer({ noDelay: true }, client => this.#accept(client));
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    this.#port = address.port;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  get connections(): number {
    return this.#links.size;
  }

  get accepted(): number {
    return this.#accepted;
  }

  cut(): void {
    for (const link of this.#links) link.end();
  }

  down(): void {
    this.#fault = 'down';
    this.cut();
  }

  blackHole(): void {
    this.#fault = 'black-hole';
  }

  dropReplies(chunks = Number.POSITIVE_INFINITY): void {
    this.#fault = 'drop-replies';
    this.#dropsLeft = chunks;
  }

  delay(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  retarget(port: number): void {
    this.#target = port;
  }

  restore(): void {
    this.#fault = 'none';
    this.#delayMs = 0;
    for (const link of this.#links) if (link.torn) link.end();
  }

  async stop(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(client: Socket): void {
    this.#accepted++;
    if (this.#fault === 'down') return void client.resetAndDestroy();
    const link = new Link(client, connect({ port: this.#target, host: '127.0.0.1', noDelay: true }));
    this.#links.add(link);
    client.on('data', chunk => this.#forward(link, link.server, chunk, 'request'));
    link.server.on('data', chunk => this.#forward(link, client, chunk, 'reply'));
    for (const [socket, other] of [
      [client, link.server],
      [link.server, client],
    ] as const) {
      // A peer that goes away is what this proxy is for; the other side is told the same way.
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#links.delete(link);
        if (this.#fault !== 'black-hole') other.destroy();
      });
    }
  }

  #forward(link: Link, to: Socket, chunk: Buffer, kind: 'request' | 'reply'): void {
    if (this.#fault === 'black-hole' || (this.#fault === 'drop-replies' && kind === 'reply')) {
      link.torn = true;
      if (this.#fault === 'drop-replies' && --this.#dropsLeft <= 0) this.#fault = 'none';
      return;
    }
    if (this.#delayMs === 0) return void to.write(chunk);
    // Timers of the same delay fire in the order in which they were set, so that bytes keep theirs.
    setTimeout(() => void to.write(chunk), this.#delayMs);
  }
}

export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const proxy = new Proxy(targetPort);
  await proxy.listen();
  return proxy;
}
