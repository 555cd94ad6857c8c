/**
 * Hears from the server that a stream was written to, by whomever: `CLIENT TRACKING` of the reading connection, with
 * the invalidations redirected to a connection of their own (ioredis hands on pub/sub messages, not RESP3 pushes of
 * other kinds). A read arms a stream; its next change rings once.
 */

import type { Redis } from 'ioredis';

const invalidations = '__redis__:invalidate';

export interface DoorbellListener {
  /** The stream changed; without a key, everything may have changed. */
  rung(key: string | undefined): void;
  /** A sibling handed back entries of this group. */
  returned(key: string, group: string): void;
  /** From now on rings may be missed. */
  lost(): void;
}

export class Doorbell {
  readonly connection: Redis;
  readonly #returnChannel: string;
  /** The id of the connection that `stream` is. */
  #known: { stream: unknown; id: number } | undefined;

  constructor(connection: Redis, returnChannel: string, listener: DoorbellListener) {
    this.connection = connection;
    this.#returnChannel = returnChannel;
    connection.on('close', () => listener.lost());
    connection.on('messageBuffer', (channel: Buffer, message: unknown) => {
      if (channel.toString() === invalidations) ring(message, listener);
      else hearReturn(String(message), listener);
    });
  }

  /** Makes `reader` ring here. Rejects when the server refuses tracking or a connection fails. */
  async attach(reader: Redis): Promise<void> {
    // A connection in subscriber mode may not ask for its id, so each new one is asked before it subscribes.
    const id = await this.#identity();
    await reader.client('TRACKING', 'OFF');
    await reader.client('TRACKING', 'ON', 'REDIRECT', id);
  }

  async #identity(): Promise<number> {
    const { stream } = this.connection;
    if (this.#known?.stream === stream) return this.#known.id;
    const id = await this.connection.client('ID');
    await this.connection.subscribe(invalidations, this.#returnChannel);
    this.#known = { stream, id };
    return id;
  }
}

function ring(keys: unknown, listener: DoorbellListener): void {
  if (!Array.isArray(keys)) return listener.rung(undefined);
  for (const key of keys as Buffer[]) listener.rung(key.toString());
}

function hearReturn(message: string, listener: DoorbellListener): void {
  const split = message.lastIndexOf('\n');
  if (split > 0) listener.returned(message.slice(0, split), message.slice(split + 1));
}
