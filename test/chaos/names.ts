/** What the parts of a chaos run call the same. */

/** Several agents on each thread: they take turns. */
export const agentIds: readonly string[] = ['chaos', 'other'];

export const resourceId = 'chaos';

/** Of the pods, ms. */
export const sweepIntervalMs = 500;

/** In the Redis for the notes: how the agents of a pod are to end their process, `exit` or `crash`. */
export function endKey(pod: string): string {
  return `end:${pod}`;
}
