/** A primary, its replicas and the sentinels that watch them, all real, on the loopback. */

import { Redis } from 'ioredis';

import { startRedis } from './redis-server.ts';
import type { RedisServer } from './redis-server.ts';
import { until } from './until.ts';

export interface RedisSentinels {
  /** Of the primary, as ioredis wants it. */
  readonly name: string;
  readonly sentinels: { host: string; port: number }[];
  readonly servers: readonly RedisServer[];
  primary(): Promise<RedisServer>;
  /** Kills the primary and waits until another server is it. Answers the one that died; `restart` brings it back. */
  failOver(): Promise<RedisServer>;
  stop(): Promise<void>;
}

const name = 'signals';

/**
 * `wayTo`: the port on which the others and the clients of the sentinels know the first primary, when that is not its own: with
 * a proxy there it can be cut off from them, and live.
 */
export async function startRedisSentinels(
  replicas = 1,
  watchers = 3,
  wayTo: (first: RedisServer) => Promise<number> = first => Promise.resolve(first.port),
): Promise<RedisSentinels> {
  const prompt = 'repl-diskless-sync-delay 0'; // whoever leads lets others follow at once
  const first = await startRedis({ config: [prompt] });
  const firstPort = await wayTo(first);
  const servers = [first];
  for (let at = 0; at < replicas; at++) servers.push(await startRedis({ config: [prompt, `replicaof 127.0.0.1 ${firstPort}`] }));
  // One looks sooner than the others and asks for their votes. Where all see it at once, two may be elected one after the other,
  // and two replicas promoted: that happens, but a test is not to depend on it.
  const configOf = (isFirst: boolean) => [
    `sentinel monitor ${name} 127.0.0.1 ${firstPort} ${isFirst ? 1 : Math.floor(watchers / 2) + 1}`,
    `sentinel down-after-milliseconds ${name} ${isFirst ? 500 : 5000}`,
    `sentinel failover-timeout ${name} 3000`,
  ];
  const sentinels: RedisServer[] = [];
  for (let at = 0; at < watchers; at++) sentinels.push(await startRedis({ sentinel: true, config: configOf(at === 0) }));
  const admin = new Redis(sentinels[0]?.port ?? 0, '127.0.0.1');

  const primary = async () => {
    const [, port] = (await admin.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)) as [string, string];
    const found = servers.find(server => (server === first ? firstPort : server.port) === Number(port));
    if (!found) throw new Error(`nothing of ours is on ${port}`);
    return found;
  };
  await until('the sentinels know all servers and each other', async () => {
    const fields = (await admin.call('SENTINEL', 'MASTER', name)) as string[];
    const value = (field: string) => Number(fields[fields.indexOf(field) + 1]);
    const linked = (await admin.call('SENTINEL', 'REPLICAS', name)) as string[][];
    const inSync = linked.filter(replica => replica[replica.indexOf('master-link-status') + 1] === 'ok').length;
    return value('num-slaves') === replicas && value('num-other-sentinels') === watchers - 1 && inSync === replicas;
  });

  return {
    name,
    sentinels: sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
    servers,
    primary,
    async failOver() {
      const old = await primary();
      await old.kill('SIGKILL');
      await until('another server is the primary', async () => (await primary()) !== old);
      return old;
    },
    async stop() {
      admin.disconnect();
      await Promise.all([...servers, ...sentinels].map(server => server.stop()));
    },
  };
}
