/** Pods on a Redis Cluster, one of whose primaries dies: its replica goes on with what was confirmed, and pods with it. */

import { afterEach, beforeEach, expect, test } from 'vitest';

import { Fleet } from '../support/fleet.ts';
import type { Answer } from '../support/fleet.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import type { RedisCluster } from '../support/redis-cluster.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { reportOn } from '../support/run-history.ts';
import type { RuntimeProcess } from '../support/runtime-process.ts';
import { until } from '../support/until.ts';

/** Over all partitions, and so over all nodes. */
const threads = Array.from({ length: 24 }, (_, at) => ({ resourceId: 'user', threadId: `thread-${at}` }));
let cluster: RedisCluster;
let doomed: RedisServer;
let successor: RedisServer;
/** Its Redis only has the agent's notes. */
let fleet: Fleet;

beforeEach(async () => {
  cluster = await startRedisCluster(3);
  const [first, second, third] = cluster.nodes as [RedisServer, RedisServer, RedisServer];
  await Promise.all([first, third].map(primary => cluster.addReplica(primary)));
  [doomed, successor] = [second, await cluster.addReplica(second)];
  fleet = await Fleet.start();
});
afterEach(async () => {
  await fleet.stop();
  await cluster.stop();
});

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

test('nothing that was accepted is lost, no thread is run twice at once, and follow-ups from another pod get there', async () => {
  const env = {
    REDIS_URL: undefined,
    REDIS_CLUSTER_NODES: cluster.seeds.map(({ host, port }) => `${host}:${port}`).join(','),
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

  await doomed.kill('SIGKILL');
  await until('its replica leads', async () => (await cluster.slotsOf(successor)).length > 0);
  await doomed.restart(); // as a replica: without one nothing is confirmed
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
