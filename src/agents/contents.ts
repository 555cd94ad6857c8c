/** What signals hold, as agents read it. */

/** The text of a signal's contents: a string as it is, of parts those of type `text`, anything else as JSON. */
export function textOf(contents: unknown): string {
  if (typeof contents === 'string') return contents;
  if (Array.isArray(contents)) return contents.map(textOfPart).filter(Boolean).join('\n');
  return contents === undefined ? '' : JSON.stringify(contents);
}

function textOfPart(part: unknown): string {
  if (typeof part === 'string') return part;
  if (typeof part !== 'object' || part === null) return '';
  const { text } = part as { text?: unknown };
  return typeof text === 'string' ? text : '';
}
