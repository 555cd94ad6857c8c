/**
 * The one rule for numbers in settings: white space around is ignored (a mounted file ends in a line feed), what remains is
 * decimal digits only, and the number is in range. So ` 15000 ` is 15000, and `15s`, ``, `1e4`, `15000.5`, `-1`, `0x10` are
 * refused. Nothing is rounded, clamped or guessed.
 */

export interface WholeNumberRange {
  readonly min: number;
  readonly max: number;
}

const digits = /^[ \t\r\n]*(\d{1,16})[ \t\r\n]*$/;

/** The number, or `undefined` when the text breaks the rule. */
export function parseWholeNumber(text: unknown, range: WholeNumberRange): number | undefined {
  const match = typeof text === 'string' ? digits.exec(text) : null;
  if (!match) return undefined;
  const value = Number(match[1]);
  return value >= range.min && value <= range.max ? value : undefined;
}

export function describeRange(range: WholeNumberRange, unit?: string): string {
  return `a whole number${unit === undefined ? '' : ` of ${unit}`}, ${range.min} to ${range.max}`;
}
