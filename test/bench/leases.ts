/**
 * Leases that are held, beside the original's way (a timer and an EVAL with its text for each lease, on node-redis): 10,000
 * of them with a TTL of 15 s, renewed every 5 s, each side in a process of its own against the same server, one after the
 * other. Then the most renewals a second that either can do, a refused acquire at 1 ms of network delay each way, and what it
 * costs to have acquires confirmed by a replica.
 *
 * Arguments: `--rounds N` (default 5), `--leases N` (default 10000), `--seconds N` of measured holding (default 10).
 */

import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { Redis } from 'ioredis';

import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import { startRedis } from '../support/redis-server.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';
import { renewIntervalMs, ttlMs } from './leases-holder.ts';
import type { Request, Usage } from './leases-holder.ts';
import { compared, median, percentile, report } from './report.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    leases: { type: 'string', default: '10000' },
    seconds: { type: 'string', default: '10' },
  },
});
const rounds = Number(values.rounds);
const holdMs = Number(values.seconds) * 1000;
const keys = Array.from({ length: Number(values.leases) }, (_, at) => `thread:{p${at % 64}}:user-${at}:thread-${at}`);

interface Measured {
  clientUs: number;
  serverUs: number;
  bytes: number;
  lateP99Ms: number;
  ceiling: number;
  refusedUs: number;
}

class Holder {
  readonly #child: ChildProcess;

  constructor(kind: 'ours' | 'theirs', url: string) {
    this.#child = fork(join(import.meta.dirname, 'leases-holder.ts'), [kind, url]);
  }

  async opened(): Promise<void> {
    await once(this.#child, 'message');
  }

  async ask<T>(request: Request): Promise<T> {
    const answer = once(this.#child, 'message');
    this.#child.send(request);
    return ((await answer)[0] as { answer: T }).answer;
  }

  async close(): Promise<void> {
    const gone = once(this.#child, 'exit');
    this.#child.send({ ask: 'close' } satisfies Request);
    await gone;
  }
}

const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));

/** Microseconds of CPU and bytes in and out that the server has used so far. */
async function serverUsage(client: Redis): Promise<{ cpuUs: number; bytes: number }> {
  const info = await client.info();
  const value = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
  return {
    cpuUs: (value('used_cpu_sys') + value('used_cpu_user')) * 1e6,
    bytes: value('total_net_input_bytes') + value('total_net_output_bytes'),
  };
}

async function measure(kind: 'ours' | 'theirs', server: RedisServer, client: Redis): Promise<Measured> {
  await client.flushall();
  await client.config('SET', 'hz', '10');
  const idleUsPerMs = await idleUse(client);
  const holder = new Holder(kind, server.url);
  await holder.opened();
  await holder.ask({ ask: 'hold', keys });
  await sleep(renewIntervalMs * 1.2);

  await holder.ask({ ask: 'mark' });
  const before = await serverUsage(client);
  const startMs = performance.now();
  await sleep(holdMs);
  const after = await serverUsage(client);
  const passedMs = performance.now() - startMs;
  const used = await holder.ask<Usage>({ ask: 'usage' });
  await sleep(renewIntervalMs * 2.2); // lateness is looked at by itself: looking costs something
  const late = await holder.ask<number[]>({ ask: 'lateness' });

  const ceiling = await holder.ask<number>({ ask: 'ceiling', keys, forMs: 3000 });
  const refusedUs = await refused(holder, server, client);
  await holder.close();
  return {
    clientUs: used.cpuUs / used.renewals,
    serverUs: (after.cpuUs - before.cpuUs - idleUsPerMs * passedMs) / used.renewals,
    bytes: (after.bytes - before.bytes) / used.renewals,
    lateP99Ms: percentile(late, 0.99),
    ceiling,
    refusedUs,
  };
}

async function idleUse(client: Redis): Promise<number> {
  const before = await serverUsage(client);
  const startMs = performance.now();
  await sleep(2000);
  return ((await serverUsage(client)).cpuUs - before.cpuUs) / (performance.now() - startMs);
}

/** Median time of an acquire that is refused, microseconds. */
async function refused(holder: Holder, server: RedisServer, client: Redis): Promise<number> {
  const proxy = await startTcpProxy(server.port);
  proxy.delay(1);
  await client.set('mastra:topic:lease:taken', 'somebody', 'PX', 600_000);
  const tookUs = await holder.ask<number[]>({ ask: 'contend', key: 'taken', times: 300, url: proxy.url });
  await proxy.stop();
  return median(tookUs);
}

/**
 * Acquires per second that a replica 1 ms away confirms, from 64 callers: with one WAIT for all that were sent together, and with
 * one each.
 */
async function confirmed(server: RedisServer, grouped: boolean): Promise<number> {
  const way = await startTcpProxy(server.port);
  const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${way.port}`] });
  const client = new Redis(server.url);
  await until('the replica confirms', async () => {
    await client.set('something', 'to confirm');
    return (await client.wait(1, 200)) === 1;
  });
  way.delay(1);
  const together = new RedisLeaseProvider(client, new RedisKeys('together'), { replicaAcks: 1 });
  const alone = new RedisLeaseProvider(client, new RedisKeys('alone'));
  const untilMs = performance.now() + 3000;
  let made = 0;
  const caller = async (name: number) => {
    for (let at = 0; performance.now() < untilMs; at++) {
      const key = `k${name}-${at}`;
      if (grouped) await together.acquireLease(key, 'a', ttlMs);
      else await Promise.all([alone.acquireLease(key, 'a', ttlMs), client.wait(1, 500)]);
      made++;
    }
  };
  await Promise.all(Array.from({ length: 64 }, (_, name) => caller(name)));
  client.disconnect();
  await replica.stop();
  await way.stop();
  return made / 3;
}

const server = await startRedis();
const client = new Redis(server.url);
const all = { ours: [] as Measured[], theirs: [] as Measured[] };
const replicated = { ours: [] as number[], theirs: [] as number[] };
for (let round = 1; round <= rounds; round++) {
  for (const kind of ['ours', 'theirs'] as const) {
    const measured = await measure(kind, server, client);
    all[kind].push(measured);
    console.error(`round ${round} ${kind} ${JSON.stringify(measured)}`);
  }
  replicated.ours.push(await confirmed(server, true));
  replicated.theirs.push(await confirmed(server, false));
  console.error(`round ${round} confirmed by a replica ${JSON.stringify([replicated.ours.at(-1), replicated.theirs.at(-1)])}`);
}
client.disconnect();
await server.stop();

const of = (kind: 'ours' | 'theirs', what: keyof Measured) => median(all[kind].map(each => each[what]));
const both = (what: keyof Measured) => [of('ours', what), of('theirs', what)] as const;
report('leases', [
  compared('client CPU per renewal, us', ...both('clientUs'), 0.1, 'lower'),
  compared('Redis CPU per renewal, us', ...both('serverUs'), 0.25, 'lower'),
  compared('bytes per renewal', ...both('bytes'), 1, 'lower'),
  compared('p99 of lateness, ms', ...both('lateP99Ms'), 1, 'lower'),
  compared('most renewals per second', ...both('ceiling'), 3, 'higher'),
  compared('refused acquire at 1 ms delay, us', ...both('refusedUs'), 0.45, 'lower'),
  compared('acquires per second that a replica 1 ms away confirms, one WAIT a group beside one each', median(replicated.ours), median(replicated.theirs), 3, 'higher'),
]);
