/** Notices when the machine itself stood still: on a busy one that looks like a fault that nobody made, and is one. */

import type { Fault } from './history.ts';

const everyMs = 50;
/** Below this a lease is not in danger: its deadline keeps more than this from its end. */
const worthTellingMs = 300;

export function watchForStalls(): { stop(): Fault[] } {
  const stalls: Fault[] = [];
  let last = Date.now();
  const timer = setInterval(() => {
    const now = Date.now();
    if (now - last > everyMs + worthTellingMs) stalls.push({ kind: 'machine stalled', fromMs: last, toMs: now });
    last = now;
  }, everyMs);
  return {
    stop() {
      clearInterval(timer);
      return stalls;
    },
  };
}
