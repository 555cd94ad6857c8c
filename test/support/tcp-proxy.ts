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
  /** Nothing gets through until `restore`, and then everything does: a network that was cut, and TCP that sends again. */
  hold(): void;
  /** New connections go to another server. */
  retarget(port: number): void;
  /**
   * No more faults. Connections that lost bytes to a fault are ended: what comes after a gap would be nonsense. So
   * after `blackHole` a client still has to notice by itself, unless it is restored.
   */
  restore(): void;
  stop(): Promise<void>;
}

type Fault = 'none' | 'down' | 'black-hole' | 'drop-replies' | 'hold';

/** One direction of a link. Bytes keep their order whatever happens to the delay meanwhile. */
class Pipe {
  readonly #to: Socket;
  #late: { chunk: Buffer; dueAtMs: number }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #held = false;

  constructor(to: Socket) {
    this.#to = to;
    to.on('close', () => {
      clearTimeout(this.#timer);
      this.#late = [];
    });
  }

  write(chunk: Buffer, delayMs: number): void {
    if (this.#to.destroyed) return;
    this.#late.push({ chunk, dueAtMs: performance.now() + delayMs });
    this.#pump();
  }

  hold(held: boolean): void {
    this.#held = held;
    this.#pump();
  }

  #pump(): void {
    clearTimeout(this.#timer);
    for (let next = this.#late[0]; next !== undefined && !this.#held; next = this.#late[0]) {
      const waitMs = next.dueAtMs - performance.now();
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.#pump(), Math.ceil(waitMs));
        return;
      }
      this.#late.shift();
      this.#to.write(next.chunk);
    }
  }
}

class Link {
  readonly client: Socket;
  readonly server: Socket;
  readonly requests: Pipe;
  readonly replies: Pipe;
  /** Bytes were thrown away. */
  torn = false;
  /** One side went away during a fault that keeps the other from hearing of it. */
  halfOpen = false;

  constructor(client: Socket, server: Socket) {
    this.client = client;
    this.server = server;
    this.requests = new Pipe(server);
    this.replies = new Pipe(client);
  }

  hold(held: boolean): void {
    this.requests.hold(held);
    this.replies.hold(held);
  }

  /** What was sent before one side went away still arrives; then the other side hears of it. */
  endAfterRest(): void {
    this.hold(false);
    this.client.end();
    this.server.end();
  }

  end(): void {
    for (const socket of [this.client, this.server]) {
      socket.resetAndDestroy();
      socket.destroy(); // by itself the reset waits for what is still to be written, which nobody may read
    }
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
    return [...this.#links].filter(link => !link.halfOpen).length;
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

  hold(): void {
    this.#fault = 'hold';
    for (const link of this.#links) link.hold(true);
  }

  retarget(port: number): void {
    this.#target = port;
  }

  restore(): void {
    this.#fault = 'none';
    this.#delayMs = 0;
    for (const link of this.#links) {
      if (link.torn) link.end();
      else if (link.halfOpen) link.endAfterRest();
      else link.hold(false);
    }
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
    if (this.#fault === 'hold') link.hold(true);
    client.on('data', chunk => this.#forward(link, link.requests, chunk, 'request'));
    link.server.on('data', chunk => this.#forward(link, link.replies, chunk, 'reply'));
    for (const [socket, other] of [
      [client, link.server],
      [link.server, client],
    ] as const) {
      // A peer that goes away is what this proxy is for; the other side is told the same way.
      socket.on('error', () => {});
      socket.on('close', () => {
        if (other.destroyed) this.#links.delete(link);
        else if (this.#fault === 'black-hole' || this.#fault === 'hold') link.halfOpen = true;
        else other.destroy();
      });
    }
  }

  #forward(link: Link, to: Pipe, chunk: Buffer, kind: 'request' | 'reply'): void {
    if (this.#fault === 'black-hole' || (this.#fault === 'drop-replies' && kind === 'reply')) {
      link.torn = true;
      if (this.#fault === 'drop-replies' && --this.#dropsLeft <= 0) this.#fault = 'none';
      return;
    }
    to.write(chunk, this.#delayMs);
  }
}

export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const proxy = new Proxy(targetPort);
  await proxy.listen();
  return proxy;
}
