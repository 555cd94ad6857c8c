/** Stream ids, `<ms>-<sequence>`: both parts are unsigned 64-bit numbers, so they are compared as text of equal length. */

export const streamStart = '0-0';

/** Negative when `a` is older than `b`, 0 when they are the same, positive when it is newer. */
export function compareIds(a: string, b: string): number {
  if (a === b) return 0;
  const dashA = a.indexOf('-');
  const dashB = b.indexOf('-');
  if (a.length === b.length && dashA === dashB) return a < b ? -1 : 1;
  const byMs = compareDigits(a.slice(0, dashA), b.slice(0, dashB));
  return byMs === 0 ? compareDigits(a.slice(dashA + 1), b.slice(dashB + 1)) : byMs;
}

function compareDigits(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The greatest id below `id`. */
export function idBefore(id: string): string {
  const dash = id.indexOf('-');
  const ms = BigInt(id.slice(0, dash));
  const sequence = BigInt(id.slice(dash + 1));
  if (sequence > 0n) return `${ms}-${sequence - 1n}`;
  return ms > 0n ? `${ms - 1n}-18446744073709551615` : streamStart;
}
