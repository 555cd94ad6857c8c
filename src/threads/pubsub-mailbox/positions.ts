/** Positions in an inbox or an output: `<ms>-<sequence>`, ordered as two numbers, like the ids of Redis streams. */

export const beginning = '0-0';

export function comparePositions(a: string, b: string): number {
  const [aMs, aSequence] = parts(a);
  const [bMs, bSequence] = parts(b);
  return aMs - bMs || aSequence - bSequence;
}

/** The position after `last`: by the wall clock, and greater also when that went back. */
export function nextPosition(last: string, wallMs: number): string {
  const [lastMs, lastSequence] = parts(last);
  const nowMs = Math.floor(wallMs);
  return nowMs > lastMs ? `${nowMs}-0` : `${lastMs}-${lastSequence + 1}`;
}

export function laterOf(a: string, b: string): string {
  return comparePositions(a, b) >= 0 ? a : b;
}

function parts(position: string): [number, number] {
  const [ms, sequence] = position.split('-');
  return [Number(ms) || 0, Number(sequence) || 0];
}
