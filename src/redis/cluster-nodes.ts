/** Which node serves a key: one in all on a standalone server or behind Sentinel. */

import type { Cluster, Redis } from 'ioredis';

import type { RedisClient } from './connection.ts';
import { keySlot } from './key-slot.ts';

export interface ServingNode {
  readonly name: string;
  /** The node as its Cluster knows it; absent where there is none. */
  readonly at?: Redis;
}

/** By the map of slots that the client has now; `undefined` when nobody serves the key, as far as it knows. */
export function nodeServing(client: RedisClient, key: string): ServingNode | undefined {
  if (!('slots' in client)) return { name: 'redis' };
  const name = client.slots[keySlot(key)]?.[0];
  const at = name === undefined ? undefined : masterAt(client, name);
  return name === undefined || !at ? undefined : { name, at };
}

function masterAt(cluster: Cluster, name: string): Redis | undefined {
  return cluster.nodes('master').find(node => `${node.options.host}:${node.options.port}` === name);
}
