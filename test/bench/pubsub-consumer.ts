/** One side of the comparison in a process of its own: subscribes, handles, acks, and answers what it is asked over IPC. */

import type { EventCallback } from '../../src/contracts/pubsub.ts';
import { RedisStreamsPubSub } from '../../src/redis/streams-pubsub.ts';
import { OriginalSide } from './pubsub-original.ts';

export interface ConsumerSide {
  subscribe(topic: string, callback: EventCallback, group: string): Promise<void>;
  close(): Promise<void>;
}

export type Request =
  | { ask: 'subscribe'; topics: number }
  | { ask: 'expect'; events: number }
  | { ask: 'usage' }
  | { ask: 'close' };

export interface Usage {
  cpuMs: number;
  rssBytes: number;
}

export interface Handled {
  /** Publish to handler, us. */
  latenciesUs: number[];
  /** When the last event was acked, as the clock of `clockUs` says. */
  lastAckUs: number;
}

/** The same clock in every process of this machine. */
export function clockUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

function oursSide(url: string): ConsumerSide {
  const pubsub = new RedisStreamsPubSub({ url });
  return {
    subscribe: (topic, callback, group) => pubsub.subscribe(topic, callback, { group }),
    close: () => pubsub.close(),
  };
}

function serve(kind: string, url: string): void {
  const side = kind === 'ours' ? oursSide(url) : new OriginalSide(url);
  let latenciesUs: number[] = [];
  let expected = Number.POSITIVE_INFINITY;
  let acked = 0;

  const callback: EventCallback = (event, ack) => {
    latenciesUs.push(clockUs() - (event.data as { sentUs: number }).sentUs);
    void ack?.().then(() => {
      if (++acked < expected) return;
      process.send?.({ latenciesUs, lastAckUs: clockUs() } satisfies Handled);
      expected = Number.POSITIVE_INFINITY;
    });
  };

  const subscribeAll = async (topics: number) => {
    for (let from = 0; from < topics; from += 200) {
      const chunk = Array.from({ length: Math.min(200, topics - from) }, (_, at) => `t${from + at}`);
      await Promise.all(chunk.map(topic => side.subscribe(topic, callback, 'workers')));
    }
    process.send?.({ subscribed: true });
  };

  // Whoever measured is gone.
  process.on('disconnect', () => process.exit(0));
  process.on('message', (request: Request) => {
    if (request.ask === 'subscribe') void subscribeAll(request.topics);
    else if (request.ask === 'expect') {
      expected = request.events;
      acked = 0;
      latenciesUs = [];
      process.send?.({ ready: true });
    } else if (request.ask === 'usage') {
      const { user, system } = process.cpuUsage();
      process.send?.({ cpuMs: (user + system) / 1000, rssBytes: process.memoryUsage.rss() } satisfies Usage);
    } else void side.close().then(() => process.disconnect());
  });
}

const [kind, url] = process.argv.slice(2);
if (process.send && kind !== undefined && url !== undefined) serve(kind, url);
