/** A conversation, and how its keys are made. */

import { randomUUID } from 'node:crypto';
import { crc32 } from 'node:zlib';

export interface ThreadRef {
  readonly resourceId: string;
  readonly threadId: string;
}

/**
 * Threads are spread over a fixed number of partitions. All keys of a partition share a hash tag and so a Cluster
 * slot, which is what lets one script touch a thread's lease, inbox, output and index. The number is written to the store at
 * first start: another one would look for threads where they are not.
 */
export const partitionCount = 64;

export function partitionOf(thread: ThreadRef): number {
  return crc32(`${thread.resourceId}\u0000${thread.threadId}`) % partitionCount;
}

/** `<resource>:<thread>`, each percent-encoded, so that neither can reach into the other or into a hash tag. */
export function threadName(thread: ThreadRef): string {
  return `${encodeURIComponent(thread.resourceId)}:${encodeURIComponent(thread.threadId)}`;
}

export function parseThreadName(name: string): ThreadRef {
  const colon = name.indexOf(':');
  if (colon < 0) throw new TypeError(`not a thread name: ${JSON.stringify(name)}`);
  return { resourceId: decodeURIComponent(name.slice(0, colon)), threadId: decodeURIComponent(name.slice(colon + 1)) };
}

/** The key under which a thread is leased: `thread:{p17}:<resource>:<thread>`. */
export function threadLeaseKey(thread: ThreadRef): string {
  return `thread:{p${partitionOf(thread)}}:${threadName(thread)}`;
}

/** A new run's id. It ends with the thread's partition, so that any instance can find the thread of a run that is on. */
export function newRunId(thread: ThreadRef): string {
  return `${randomUUID()}-p${partitionOf(thread)}`;
}

/** `undefined` for an id that `newRunId` did not make. */
export function partitionOfRun(runId: string): number | undefined {
  const digits = /-p(\d{1,2})$/.exec(runId)?.[1];
  const partition = Number(digits);
  return digits !== undefined && partition < partitionCount ? partition : undefined;
}

/**
 * An owner names the instance and the run, `<instance>/<run>`: whoever reads a lease knows where to send a hint and
 * which run it would interrupt. Another run is another owner, so a late command of an old run can't pass for a new one.
 */
export function ownerOf(instanceId: string, runId: string): string {
  return `${instanceId}/${runId}`;
}

export function parseOwner(owner: string): { instanceId: string; runId: string } {
  const slash = owner.lastIndexOf('/');
  return slash < 0
    ? { instanceId: '', runId: owner } // an owner of the original runtime is a bare run id
    : { instanceId: owner.slice(0, slash), runId: owner.slice(slash + 1) };
}
