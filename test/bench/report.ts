/** What every benchmark says at its end, in one line of JSON. */

export interface BenchResult {
  name: string;
  ours: number;
  theirs: number;
  ratio: number;
  target: number;
  better: 'higher' | 'lower';
  met: boolean;
}

/** Compares ours to theirs: `ratio` is ours / theirs, and `target` is what it should at least (or at most) be. */
export function compared(
  name: string,
  ours: number,
  theirs: number,
  target: number,
  better: 'higher' | 'lower',
): BenchResult {
  const ratio = rounded(ours / theirs);
  return { name, ours: rounded(ours), theirs: rounded(theirs), ratio, target, better, met: meets(ratio, target, better) };
}

/** Compares ours to a limit of its own: then `target` is that limit, in the unit of `ours`. */
export function limited(
  name: string,
  ours: number,
  theirs: number,
  target: number,
  better: 'higher' | 'lower',
): BenchResult {
  return { ...compared(name, ours, theirs, target, better), met: meets(ours, target, better) };
}

export function report(bench: string, results: readonly BenchResult[]): void {
  console.log(JSON.stringify({ bench, results }));
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] ?? Number.NaN) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function meets(value: number, target: number, better: 'higher' | 'lower'): boolean {
  return better === 'higher' ? value >= target : value <= target;
}

function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
