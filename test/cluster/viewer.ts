/** Follows a thread's output through the Service. When a pod ends the stream, it goes on at another from the last id that it saw. */

import { setTimeout as pause } from 'node:timers/promises';

import { resourceId } from '../chaos/names.ts';
import { worker } from './release.ts';

export class Viewer {
  /** The text of each chunk that has one, in the order in which they came. */
  readonly texts: string[] = [];
  /** How often it had to begin again. */
  streams = 0;
  readonly #url: string;
  readonly #thread: string;
  readonly #stopped = new AbortController();
  #lastId: string | undefined;

  constructor(url: string, thread: string) {
    this.#url = url;
    this.#thread = thread;
    void this.#follow();
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #follow(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      try {
        await this.#once();
      } catch {
        // Refused or cut off: the next try is what this is for.
      }
      await pause(200);
    }
  }

  async #once(): Promise<void> {
    const response = await fetch(`${this.#url}/api/agents/${worker}/threads/subscribe`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json', accept: 'text/event-stream',
        ...(this.#lastId !== undefined && { 'last-event-id': this.#lastId }),
      },
      body: JSON.stringify({ resourceId, threadId: this.#thread }),
      signal: this.#stopped.signal,
    });
    if (!response.ok || !response.body) return;
    this.streams++;
    let rest = '';
    for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
      const events = (rest + part).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) this.#take(event);
    }
  }

  #take(event: string): void {
    for (const line of event.split('\n')) {
      if (line.startsWith('id:')) this.#lastId = line.slice('id:'.length).trim();
      if (!line.startsWith('data:')) continue;
      const { payload } = JSON.parse(line.slice('data:'.length)) as { payload?: { text?: string } };
      if (payload?.text !== undefined) this.texts.push(payload.text);
    }
  }
}
