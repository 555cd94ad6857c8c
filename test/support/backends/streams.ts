/** A PubSub with leases over many processes and no mailbox of its own, as a user's backend. */

import { RedisStreamsPubSub } from '../../../src/redis/streams-pubsub.ts';

export default async function open() {
  const pubsub = new RedisStreamsPubSub({ url: process.env['STREAMS_REDIS_URL'] });
  await pubsub.getLeaseOwner('none'); // connected when this resolves
  return pubsub;
}
