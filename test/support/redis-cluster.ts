/** A Redis Cluster of real servers on the loopback: primaries that share the slots, more nodes when asked, resharding. */

import { Redis } from 'ioredis';

import { freePort, startRedis } from './redis-server.ts';
import type { RedisServer } from './redis-server.ts';
import { until } from './until.ts';

export interface RedisCluster {
  /** In the order in which they were started; those that were removed are not there any more. */
  readonly nodes: readonly RedisServer[];
  /** For `new Cluster(...)`. */
  readonly seeds: { host: string; port: number }[];
  /** Another primary without slots; known to all when this resolves. */
  addNode(): Promise<RedisServer>;
  /** In step with its primary when this resolves; takes over when that dies, as long as most primaries live. */
  addReplica(primary: RedisServer): Promise<RedisServer>;
  /** Moves slots and the keys in them, as `redis-cli --cluster reshard` does. */
  moveSlots(from: RedisServer, to: RedisServer, slots: readonly number[]): Promise<void>;
  slotsOf(node: RedisServer): Promise<number[]>;
  /** Stops a node that has no slots left and makes the others forget it. */
  removeNode(node: RedisServer): Promise<void>;
  stop(): Promise<void>;
}

const slotCount = 16_384;

interface Member {
  readonly server: RedisServer;
  readonly busPort: number;
  readonly admin: Redis;
  readonly id: string;
}

class Cluster implements RedisCluster {
  #members: Member[] = [];
  readonly #configOf: () => Promise<readonly string[]>;

  constructor(configOf: () => Promise<readonly string[]>) {
    this.#configOf = configOf;
  }

  get nodes(): readonly RedisServer[] {
    return this.#members.map(({ server }) => server);
  }

  get seeds(): { host: string; port: number }[] {
    return this.#members.map(({ server }) => ({ host: '127.0.0.1', port: server.port }));
  }

  async start(primaries: number): Promise<void> {
    for (let at = 0; at < primaries; at++) await this.#launch();
    const share = Math.ceil(slotCount / primaries);
    for (const [at, { admin }] of this.#members.entries()) {
      const last = Math.min(slotCount, (at + 1) * share) - 1;
      await admin.call('CLUSTER', 'ADDSLOTSRANGE', at * share, last);
    }
    await this.#agree();
  }

  async addNode(): Promise<RedisServer> {
    const { server } = await this.#launch();
    await this.#agree();
    return server;
  }

  async addReplica(primary: RedisServer): Promise<RedisServer> {
    const { server, admin } = await this.#launch();
    await this.#agree();
    await until('it may follow its primary', async () => (await admin.call('CLUSTER', 'REPLICATE', this.#member(primary).id).catch(() => '')) === 'OK');
    await until('it is in step', async () => (await admin.info('replication')).includes('master_link_status:up'));
    return server;
  }

  async slotsOf(node: RedisServer): Promise<number[]> {
    const { id } = this.#member(node);
    const lines = String(await this.#first().admin.call('CLUSTER', 'NODES')).split('\n');
    const ranges = lines.find(line => line.startsWith(id))?.trim().split(' ').slice(8) ?? [];
    return ranges
      .filter(range => !range.startsWith('['))
      .flatMap(range => {
        const [first = 0, last = first] = range.split('-').map(Number);
        return Array.from({ length: last - first + 1 }, (_, at) => first + at);
      });
  }

  async moveSlots(from: RedisServer, to: RedisServer, slots: readonly number[]): Promise<void> {
    const [source, target] = [this.#member(from), this.#member(to)];
    // Each change of a slot is written to disk before the reply: many in one round trip share that.
    await setSlots(target.admin, slots, 'IMPORTING', source.id);
    await setSlots(source.admin, slots, 'MIGRATING', target.id);
    const counts = await pipelined(source.admin, slots.map(slot => ['CLUSTER', 'COUNTKEYSINSLOT', slot]));
    for (const slot of slots.filter((_slot, at) => Number(counts[at]) > 0)) {
      for (;;) {
        const keys = (await source.admin.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[];
        if (keys.length === 0) break;
        await source.admin.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5000, 'KEYS', ...keys);
      }
    }
    // The new owner is told first, so that nobody is ever sent to a node that does not know of it.
    for (const { admin } of [target, source, ...this.#members.filter(one => one !== target && one !== source)]) {
      await setSlots(admin, slots, 'NODE', target.id);
    }
  }

  async removeNode(node: RedisServer): Promise<void> {
    const leaving = this.#member(node);
    this.#members = this.#members.filter(member => member !== leaving);
    leaving.admin.disconnect();
    await leaving.server.stop();
    for (const { admin } of this.#members) await admin.call('CLUSTER', 'FORGET', leaving.id);
  }

  async stop(): Promise<void> {
    for (const { admin } of this.#members) admin.disconnect();
    await Promise.all(this.#members.map(({ server }) => server.stop()));
  }

  async #launch(): Promise<Member> {
    const busPort = await freePort();
    const config = ['cluster-enabled yes', `cluster-port ${busPort}`, 'cluster-node-timeout 2000', 'cluster-allow-replica-migration no'];
    const server = await startRedis({ config: [...config, 'cluster-require-full-coverage no', ...(await this.#configOf())] });
    const admin = new Redis(server.port, '127.0.0.1');
    admin.on('error', () => {}); // tests end servers
    const id = String(await admin.call('CLUSTER', 'MYID'));
    const known = this.#members[0];
    if (known) await admin.call('CLUSTER', 'MEET', '127.0.0.1', known.server.port, known.busPort);
    // Nodes that start with the same epoch argue over it for a while.
    await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', this.#members.length + 1).catch(() => {});
    const member = { server, busPort, admin, id };
    this.#members.push(member);
    return member;
  }

  async #agree(): Promise<void> {
    await until('all nodes of the cluster know each other', async () => {
      const infos = await Promise.all(this.#members.map(({ admin }) => admin.call('CLUSTER', 'INFO')));
      return infos.map(String).every(info => {
        const known = Number(/cluster_known_nodes:(\d+)/.exec(info)?.[1]);
        const assigned = Number(/cluster_slots_ok:(\d+)/.exec(info)?.[1]);
        return info.includes('cluster_state:ok') && known === this.#members.length && assigned === slotCount;
      });
    });
  }

  #first(): Member {
    const [first] = this.#members;
    if (!first) throw new Error('the cluster has no nodes');
    return first;
  }

  #member(node: RedisServer): Member {
    const member = this.#members.find(({ server }) => server === node);
    if (!member) throw new Error(`the node on ${node.port} is not of this cluster`);
    return member;
  }
}

async function setSlots(admin: Redis, slots: readonly number[], state: string, node: string): Promise<void> {
  await pipelined(admin, slots.map(slot => ['CLUSTER', 'SETSLOT', slot, state, node]));
}

async function pipelined(admin: Redis, commands: readonly [string, ...(string | number)[]][]): Promise<unknown[]> {
  const replies: unknown[] = [];
  for (let at = 0; at < commands.length; at += 1000) {
    const pipeline = admin.pipeline();
    for (const command of commands.slice(at, at + 1000)) pipeline.call(...command);
    for (const [error, reply] of (await pipeline.exec()) ?? []) {
      if (error) throw error;
      replies.push(reply);
    }
  }
  return replies;
}

/** `configOf`: more lines of redis.conf, asked for once per node. */
export async function startRedisCluster(
  primaries = 3,
  configOf: () => Promise<readonly string[]> = () => Promise.resolve([]),
): Promise<RedisCluster> {
  const cluster = new Cluster(configOf);
  await cluster.start(primaries);
  return cluster;
}
