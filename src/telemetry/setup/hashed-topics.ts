/**
 * Topics on the spans of `RedisStreamsPubSub` are its users' words and may hold ids of threads. Where ids are hashed, so are they,
 * whoever made the backend: in an agent's module it knows no settings of ours. Another SDK, where one is registered, gets them as they
 * are.
 */

import type { SpanProcessor } from '@opentelemetry/sdk-trace';

import type { ShownIds } from '../shown-ids.ts';

const destinationName = 'messaging.destination.name';
const operationName = 'messaging.operation.name';

export function hashedTopics(ids: ShownIds): SpanProcessor {
  return {
    onStart(span) {
      const topic = span.attributes[destinationName];
      if (typeof topic !== 'string') return;
      const shown = ids.id(topic);
      span.setAttribute(destinationName, shown);
      span.updateName(`${String(span.attributes[operationName])} ${shown}`);
    },
    onEnd() {},
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
}
