/**
 * How the original backend goes about its work, written for this comparison: node-redis 6, a connection per subscription
 * that blocks on its stream, ten entries a read, one XACK per entry over a shared connection.
 */

import { createClient } from 'redis';

import type { EventCallback } from '../../src/contracts/pubsub.ts';
import type { ConsumerSide } from './pubsub-consumer.ts';

type Client = ReturnType<typeof createClient>;

const blockMs = 1000;

export class OriginalSide implements ConsumerSide {
  readonly #url: string;
  readonly #writer: Client;
  readonly #readers: Client[] = [];
  #stopped = false;

  constructor(url: string) {
    this.#url = url;
    this.#writer = quiet(createClient({ url }));
  }

  async subscribe(topic: string, callback: EventCallback, group: string): Promise<void> {
    if (!this.#writer.isOpen) await this.#writer.connect();
    const key = `mastra:topic:${topic}`;
    await this.#writer.xGroupCreate(key, group, '0', { MKSTREAM: true });
    const reader = quiet(createClient({ url: this.#url }));
    this.#readers.push(reader);
    await reader.connect();
    void this.#read(reader, key, group, `${group}-${globalThis.crypto.randomUUID()}`, callback);
  }

  async close(): Promise<void> {
    this.#stopped = true;
    for (const reader of this.#readers) reader.destroy();
    this.#writer.destroy();
  }

  async #read(reader: Client, key: string, group: string, consumer: string, callback: EventCallback): Promise<void> {
    while (!this.#stopped) {
      const reply = await reader
        .xReadGroup(group, consumer, [{ key, id: '>' }], { COUNT: 10, BLOCK: blockMs })
        .catch(() => null);
      const streams = reply as unknown as { messages: { id: string; message: Record<string, string> }[] }[] | null;
      for (const { messages } of streams ?? []) {
        for (const { id, message } of messages) this.#deliver(key, group, id, message, callback);
      }
    }
  }

  #deliver(key: string, group: string, id: string, message: Record<string, string>, callback: EventCallback): void {
    const event = JSON.parse(message['event'] ?? '{}') as Parameters<EventCallback>[0];
    event.createdAt = new Date(event.createdAt);
    let settled = false;
    const ack = async () => {
      if (settled) return;
      settled = true;
      // The original takes a failed ack as done, too: the entry is reclaimed.
      await this.#writer.xAck(key, group, id).catch(() => 0);
    };
    void callback(event, ack, ack);
  }
}

function quiet(client: Client): Client {
  // An unheard 'error' would end the process; here connections only fail when they are closed.
  client.on('error', () => {});
  return client;
}
