/** A network that went silent under a read: nothing failed, nothing arrived, and nobody noticed. */

import { afterEach, beforeEach, describe, it } from 'vitest';

import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { newEvent, recorder, StreamsFixture } from '../support/streams-fixture.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

describe('a connection that went silent', () => {
  let server: RedisServer;
  let proxy: TcpProxy;
  const fixture = new StreamsFixture();

  beforeEach(async () => {
    server = await startRedis();
    proxy = await startTcpProxy(server.port);
  });
  afterEach(async () => {
    await fixture.closeAll();
    await proxy.stop();
    await server.stop();
  });

  const connected = async () => {
    const behind = fixture.open({ url: proxy.url, blockMs: 50, commandTimeoutMs: 500 });
    const outside = fixture.open({ url: server.url });
    const [grouped, fanout] = [recorder(), recorder()];
    await behind.subscribe('t', grouped.callback, { group: 'workers' });
    await behind.subscribe('t', fanout.callback);
    await outside.publish('t', newEvent(1));
    await until('both have it', () => grouped.events.length === 1 && fanout.events.length === 1);
    const both = (n: number) => grouped.numbers().includes(n) && fanout.numbers().includes(n);
    return { behind, outside, both };
  };

  it('is noticed within the read deadline, and reading goes on once there is a way', async () => {
    const { outside, both } = await connected();
    const before = proxy.accepted;
    proxy.blackHole();
    await outside.publish('t', newEvent(2));
    await until('the reader has given the connection up', () => fixture.warnings(/no answer in time/).length > 0);
    await until('and connects again', () => proxy.accepted > before);
    proxy.restore();
    await until('it has caught up', () => both(2));
  });

  it('and a server that restarted meanwhile: reads go on', async () => {
    const { outside, both } = await connected();
    proxy.blackHole();
    await until('the reader has given the connection up', () => fixture.warnings(/no answer in time/).length > 0);
    await server.kill('SIGKILL');
    await server.restart();
    proxy.restore();
    await until('what is published now arrives', async () => {
      await outside.publish('t', newEvent(3)).catch(() => {});
      return both(3);
    });
  });

  it('loses no entry that was read while the reply was thrown away', async () => {
    const { behind, outside, both } = await connected();
    // The server gives the entries to the group's consumer, and they never arrive.
    proxy.dropReplies();
    for (let n = 10; n < 20; n++) await outside.publish('t', newEvent(n));
    await until('the reader has given the connection up', () => fixture.warnings(/no answer in time/).length > 0);
    proxy.restore();
    await until('all are there', () => [10, 11, 12, 13, 14, 15, 16, 17, 18, 19].every(both));
    await behind.flush();
  });

  it('loses and repeats no settlement while connections are cut again and again', async () => {
    const { behind, outside } = await connected();
    const handled = new Map<number, number>();
    await behind.subscribe(
      'cut',
      async (event, ack) => {
        const { n } = event.data as { n: number };
        handled.set(n, (handled.get(n) ?? 0) + 1);
        await ack?.();
      },
      { group: 'workers' },
    );
    for (let n = 0; n < 300; n++) {
      await outside.publish('cut', newEvent(n));
      if (n % 40 === 20) proxy.cut();
    }
    await until('every event is handled', () => handled.size === 300);
    await until('and settled', async () => {
      await behind.flush();
      return (await outside.getHistory('cut')).length === 300;
    });
  });
});
