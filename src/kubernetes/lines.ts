/** The lines of a stream that has no end. */

export interface LineReading {
  /** Longer lines are cut off: `onTooLong` is told and the reading ends. Bytes. */
  readonly longest: number;
  readonly onTooLong: () => void;
}

/** Ends with the stream; throws what breaks it. What comes after the last line feed is not a line. */
export async function* linesOf(stream: AsyncIterable<Buffer>, { longest, onTooLong }: LineReading): AsyncGenerator<string> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  for await (const part of stream) {
    let from = 0;
    for (let at = part.indexOf(10); at >= 0; at = part.indexOf(10, from)) {
      held.push(part.subarray(from, at));
      const line = Buffer.concat(held).toString('utf8');
      held = [];
      heldBytes = 0;
      from = at + 1;
      if (line.trim() !== '') yield line;
    }
    if (from === part.length) continue;
    held.push(part.subarray(from));
    heldBytes += part.length - from;
    if (heldBytes > longest) {
      onTooLong();
      return;
    }
  }
}
