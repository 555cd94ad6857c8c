/** What is wrong with a value, in a form that is safe to log and to answer with. */

export interface SettingsProblem {
  readonly variable: string;
  /** What it held, secrets masked and shortened. */
  readonly value: string;
  readonly allowed: string;
}

const shownCharacters = 80;

export function problem(variable: string, value: string, allowed: string): SettingsProblem {
  return {
    variable,
    value: value.length > shownCharacters ? `${value.slice(0, shownCharacters)}...` : value,
    allowed,
  };
}

/** One line, whatever the value holds. */
export function formatProblem({ variable, value, allowed }: SettingsProblem): string {
  return `${variable} must be ${allowed}, got ${JSON.stringify(value)}`;
}

const scheme = /^[a-z][a-z0-9+.-]{0,20}:\/\//i;
const hostAndPort = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?(?:\/[\w./-]*)?$/i;

/**
 * An address as it may be shown. It is asked for addresses that are *wrong*, where a password need not be where a parser
 * looks for it; so only what looks like host and port is shown, and all before the last `@` is not.
 */
export function maskAddress(text: string): string {
  const start = scheme.exec(text)?.[0] ?? '';
  const rest = text.slice(start.length);
  const at = rest.lastIndexOf('@');
  const tail = rest.slice(at + 1);
  // Without a scheme or a port it may as well be a password that went into the wrong variable.
  const plain = hostAndPort.test(tail) && (start !== '' || tail.includes(':'));
  if (rest.includes('?') || rest.includes('#')) return `${start}***`;
  return `${start}${at < 0 ? '' : '***@'}${plain ? tail : '***'}`;
}
