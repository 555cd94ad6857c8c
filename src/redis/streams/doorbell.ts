/**
 * Hears from the server that a stream was written to, by whomever: `CLIENT TRACKING` of the reading connection, with
 * the invalidations redirected to a connection of their own (ioredis hands on pub/sub messages, not RESP3 pushes of
 * other kinds). A read arms a stream; its next change rings once.
 */

import type { Redis } from 'ioredis';

const channel = '__redis__:invalidate';

export class Doorbell {
  readonly connection: Redis;

  /** `rung` hears the key, or `undefined` when everything may have changed. `lost` hears that rings may be missed. */
  constructor(connection: Redis, rung: (key: string | undefined) => void, lost: () => void) {
    this.connection = connection;
    connection.on('close', lost);
    connection.on('messageBuffer', (_channel: Buffer, keys: unknown) => {
      if (!Array.isArray(keys)) return rung(undefined);
      for (const key of keys as Buffer[]) rung(key.toString());
    });
  }

  /** Makes `reader` ring here. Rejects when the server refuses tracking or a connection fails. */
  async attach(reader: Redis): Promise<void> {
    // A connection in subscriber mode may not ask for its id, so each new one is asked before it subscribes.
    const id = await this.#identity();
    await reader.client('TRACKING', 'OFF');
    await reader.client('TRACKING', 'ON', 'REDIRECT', id);
  }

  #known: { stream: unknown; id: number } | undefined;

  async #identity(): Promise<number> {
    const { stream } = this.connection;
    if (this.#known?.stream === stream) return this.#known.id;
    const id = await this.connection.client('ID');
    await this.connection.subscribe(channel);
    this.#known = { stream, id };
    return id;
  }
}
