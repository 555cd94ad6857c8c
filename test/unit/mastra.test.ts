import { readFileSync } from 'node:fs';

import type { Mastra } from '@mastra/core/mastra';
import { expect, test } from 'vitest';

import { EventEmitterPubSub, RedisStreamsPubSub } from '../../src/mastra.ts';
import { EventEmitterPubSub as InProcess } from '../../src/memory/event-emitter-pubsub.ts';
import { RedisStreamsPubSub as OnRedis } from '../../src/redis/streams-pubsub.ts';

type MastraConfig = NonNullable<ConstructorParameters<typeof Mastra>[0]>;

test('both PubSubs are accepted where `new Mastra({ pubsub })` asks for one', () => {
  // That this compiles is the proof.
  const onRedis: MastraConfig = { pubsub: new RedisStreamsPubSub({ url: 'redis://127.0.0.1:1' }) };
  const inProcess: MastraConfig = { pubsub: new EventEmitterPubSub() };
  expect(onRedis.pubsub).toBeInstanceOf(OnRedis);
  expect(inProcess.pubsub).toBeInstanceOf(InProcess);
});

test('nothing of the peer is imported at run time', () => {
  const text = readFileSync(new URL('../../src/mastra.ts', import.meta.url), 'utf8');
  const imports = [...text.matchAll(/^import (type )?[^;]*? from '@mastra\/[^;]*;/gms)];
  expect(imports.length).toBeGreaterThan(0);
  for (const [, type] of imports) expect(type).toBe('type ');
});
