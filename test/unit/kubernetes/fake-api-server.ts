/**
 * A stand-in for the API server, of these tests' own: the real one (see test/kubernetes) can't be made to send 410, garbage or
 * nothing at all on demand. It knows ConfigMaps of one namespace, Events and pods, and as much of their rules as is needed.
 */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

import { KubeConfig } from '@kubernetes/client-node';

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly token: string | undefined;
  readonly body: Record<string, unknown> | undefined;
}

/** Answers `true` when it has taken care of the request itself. */
export type Override = (request: SeenRequest, response: ServerResponse) => boolean;

export class FakeApiServer {
  readonly requests: SeenRequest[] = [];
  /** In place of what would be answered otherwise. */
  override: Override = () => false;
  readonly #configMaps = new Map<string, Record<string, string>>();
  readonly #watches = new Map<ServerResponse, string>();
  readonly #sockets = new Set<Socket>();
  #version = 100;
  #server = createServer();
  #port = 0;

  async start(): Promise<void> {
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.on('connection', socket => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Refuses connections until `start`, on the same port. */
  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  get openConnections(): number {
    return this.#sockets.size;
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  config(token?: () => string): KubeConfig {
    const config = new KubeConfig();
    const cluster = { name: 'fake', server: `http://127.0.0.1:${this.#port}`, skipTLSVerify: true };
    config.loadFromClusterAndUser(cluster, { name: 'test', ...(token && { token: token() }) });
    return config;
  }

  lists(): number {
    return this.requests.filter(({ path, query }) => path.endsWith('/configmaps') && !query.has('watch')).length;
  }

  watches(): number {
    return this.requests.filter(({ query }) => query.has('watch')).length;
  }

  of(method: string): SeenRequest[] {
    return this.requests.filter(request => request.method === method);
  }

  /** `undefined` deletes. `silently`: no watch is told. */
  edit(name: string, data: Record<string, string> | undefined, silently = false): void {
    const type = data === undefined ? 'DELETED' : this.#configMaps.has(name) ? 'MODIFIED' : 'ADDED';
    this.#version++;
    const object = objectOf(name, data ?? this.#configMaps.get(name) ?? {}, this.#version);
    if (data) this.#configMaps.set(name, data);
    else this.#configMaps.delete(name);
    if (!silently) this.say(JSON.stringify({ type, object }));
  }

  bookmark(): void {
    this.say(JSON.stringify({ type: 'BOOKMARK', object: { kind: 'ConfigMap', metadata: { resourceVersion: String(this.#version) } } }));
  }

  /** One line on every open watch. */
  say(line: string): void {
    for (const response of this.#watches.keys()) response.write(`${line}\n`);
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? '/', 'http://fake');
    const parts: Buffer[] = [];
    for await (const part of incoming as AsyncIterable<Buffer>) parts.push(part);
    const text = Buffer.concat(parts).toString('utf8');
    const request: SeenRequest = {
      method: incoming.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      token: incoming.headers.authorization?.replace('Bearer ', ''),
      body: text === '' ? undefined : (JSON.parse(text) as Record<string, unknown>),
    };
    this.requests.push(request);
    if (this.override(request, response)) return;
    const name = url.searchParams.get('fieldSelector')?.replace('metadata.name=', '') ?? '';
    if (url.searchParams.has('watch')) return this.#watch(name, response);
    if (request.method === 'GET') return answer(response, 200, this.#list(name));
    return answer(response, request.method === 'POST' ? 201 : 200, request.body);
  }

  #list(name: string): object {
    const data = this.#configMaps.get(name);
    const items = data ? [objectOf(name, data, this.#version)] : [];
    return { kind: 'ConfigMapList', metadata: { resourceVersion: String(this.#version) }, items };
  }

  #watch(name: string, response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    this.#watches.set(response, name);
    response.on('close', () => this.#watches.delete(response));
  }
}

export function answer(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

/** As the API server refuses. */
export function refuse(response: ServerResponse, code: number, message: string, headers: Record<string, string> = {}): true {
  answer(response, code, { kind: 'Status', status: 'Failure', code, message }, headers);
  return true;
}

function objectOf(name: string, data: Record<string, string>, version: number): object {
  return { kind: 'ConfigMap', metadata: { name, resourceVersion: String(version) }, data };
}
