/** What the parts of a chaos run call the same. */

/** Several agents on each thread: they take turns. */
export const agentIds: readonly string[] = ['chaos', 'other'];

export const resourceId = 'chaos';

/**
 * A third of the threads is quiet: what is sent there is seldom and takes long. On the others the next signal wakes whoever gets it, so
 * that hardly anything depends on sweeps.
 */
export function threadNames(count: number): { busy: string[]; quiet: string[] } {
  const quiet = Math.floor(count / 3);
  return {
    busy: Array.from({ length: count - quiet }, (_, n) => `thread-${n}`),
    quiet: Array.from({ length: quiet }, (_, n) => `quiet-${n}`),
  };
}

export function isQuiet(thread: string): boolean {
  return thread.startsWith('quiet-');
}

/** Of the pods, ms. */
export const sweepIntervalMs = 500;

/** In the Redis for the notes: how the agents of a pod are to end their process, `exit` or `crash`. */
export function endKey(pod: string): string {
  return `end:${pod}`;
}
