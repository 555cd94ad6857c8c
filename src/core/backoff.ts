/** Delays between tries: doubling from `firstMs` to at most `maxMs`, each drawn from its upper half. */
export function backoffMs(attempt: number, firstMs: number, maxMs: number, random: () => number = Math.random): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.max(0, attempt - 1));
  return ceiling / 2 + (ceiling / 2) * random();
}

/** `baseMs` give or take `share` of it, so that many pods do not do the same thing at the same moment. */
export function jitterMs(baseMs: number, share = 0.1, random: () => number = Math.random): number {
  return baseMs * (1 - share + 2 * share * random());
}
