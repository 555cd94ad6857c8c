/** Pods on a Redis whose primary dies under them: its replica goes on with what was confirmed, and the pods with it. */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { Fleet } from '../support/fleet.ts';
import type { Answer } from '../support/fleet.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedisSentinels } from '../support/redis-sentinel.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { reportOn } from '../support/run-history.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

/** Over all partitions, and so over all nodes. */
const threads = Array.from({ length: 24 }, (_, at) => ({ resourceId: 'user', threadId: `thread-${at}` }));
/** Its Redis only has the agent's notes. */
let fleet: Fleet;
const cleanups: (() => Promise<void>)[] = [];

beforeEach(async () => {
  fleet = await Fleet.start();
  cleanups.push(() => fleet.stop());
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Store {
  readonly env: Record<string, string>;
  /** Kills a primary; its replica leads when this resolves, and has one of its own or soon will. */
  failOver(): Promise<void>;
}

async function onCluster(): Promise<Store> {
  const cluster = await startRedisCluster(3);
  cleanups.push(() => cluster.stop());
  const [first, doomed, third] = cluster.nodes as [RedisServer, RedisServer, RedisServer];
  for (const primary of [first, third]) await cluster.addReplica(primary);
  const successor = await cluster.addReplica(doomed);
  return {
    env: { REDIS_CLUSTER_NODES: cluster.seeds.map(({ host, port }) => `${host}:${port}`).join(',') },
    async failOver() {
      await doomed.kill('SIGKILL');
      await until('its replica leads', async () => (await cluster.slotsOf(successor)).length > 0);
      await doomed.restart(); // as a replica: without one nothing is confirmed
    },
  };
}

async function behindSentinels(): Promise<Store> {
  const sentinels = await startRedisSentinels(2);
  cleanups.push(() => sentinels.stop());
  const addresses = sentinels.sentinels.map(({ host, port }) => `${host}:${port}`).join(',');
  return {
    env: { REDIS_SENTINELS: addresses, REDIS_SENTINEL_NAME: sentinels.name },
    failOver: async () => void (await sentinels.failOver()),
  };
}

const textsOf = (thread: (typeof threads)[number], ...names: string[]) => names.map(name => `${name} ${thread.threadId}`);

/** As a client does: with an id, and again when it was told to try again. */
async function sendUntilAccepted(pod: RuntimeProcess, path: string, thread: (typeof threads)[number], text: string): Promise<Answer> {
  let answer: Answer | undefined;
  await until(`${text} is accepted`, async () => {
    answer = await fleet.post(pod, path, { ...thread, message: { id: text, contents: text } });
    return answer.status === 200;
  });
  return answer!;
}

test.each([
  ['a Cluster', onCluster],
  ['Sentinels', behindSentinels],
])('%s: nothing that was accepted is lost, no thread is run twice at once, and follow-ups from another pod get there', async (_name, start) => {
  const store = await start();
  const env = {
    REDIS_URL: undefined,
    ...store.env,
    REDIS_REPLICA_ACKS: '1',
    // Longer than it takes until a replica leads: owners are to keep their threads.
    MASTRA_AGENT_THREAD_LEASE_TTL_MS: '20000',
    MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS: '1000',
  };
  const [a, b] = [await fleet.pod('a', env), await fleet.pod('b', env)];
  await Promise.all(threads.map(async thread => {
    expect(await sendUntilAccepted(a, 'send-message', thread, `sleep 6000 ${thread.threadId}`)).toMatchObject({ action: 'wake' });
  }));
  for (const thread of threads) expect((await sendUntilAccepted(b, 'queue-message', thread, textsOf(thread, 'early')[0]!)).owner).toMatch(/^a\./);

  await store.failOver();
  await Promise.all(threads.map(thread => sendUntilAccepted(b, 'queue-message', thread, textsOf(thread, 'late')[0]!)));
  await until('all have run', async () => {
    const ran = new Set(await fleet.ran());
    return threads.every(thread => [`sleep 6000 ${thread.threadId}`, ...textsOf(thread, 'early', 'late')].every(text => ran.has(text)));
  }, 60_000);

  const report = reportOn(await fleet.records());
  expect(report).toMatchObject({ overlaps: [], tokenSteps: [], repeated: [] });
  for (const thread of threads) {
    expect(report.firstRuns.get(thread.threadId)).toEqual([`sleep 6000 ${thread.threadId}`, ...textsOf(thread, 'early', 'late')]);
  }
});
