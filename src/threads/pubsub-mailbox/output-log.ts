/** The newest part of a thread's output, in memory. */

import type { Chunk } from '../../contracts/agent.ts';
import type { OutputChunk } from '../../contracts/thread-mailbox.ts';
import { beginning, comparePositions, nextPosition } from './positions.ts';

/** A chunk with the position of the one before it, so that a reader knows whether it missed something. */
export interface LoggedChunk extends OutputChunk {
  readonly previous: string;
}

/** Chunks that were put out together. */
export type OutputBatch = readonly LoggedChunk[];

export class OutputLog {
  readonly #maxChunks: number;
  #chunks: LoggedChunk[] = [];
  #floor: string;
  #last: string;

  /** Begins right after `floor`. */
  constructor(maxChunks: number, floor: string = beginning) {
    this.#maxChunks = maxChunks;
    this.#floor = floor;
    this.#last = floor;
  }

  /** Every chunk after this position is here. */
  get floor(): string {
    return this.#floor;
  }

  get last(): string {
    return this.#last;
  }

  append(chunks: readonly Chunk[], wallMs: number): OutputBatch {
    let last = this.#last;
    const added = chunks.map((chunk): LoggedChunk => {
      const previous = last;
      last = nextPosition(previous, wallMs);
      // A copy, as a store would keep: what the agent does with its object afterwards changes nothing.
      return { id: last, previous, chunk: JSON.parse(JSON.stringify(chunk)) as Chunk };
    });
    this.#push(added);
    return added;
  }

  /** Takes over what another log has put out. After a gap only what comes behind it is kept. */
  follow(batch: OutputBatch): void {
    const fresh = batch.filter(({ id }) => comparePositions(id, this.#last) > 0);
    const [first] = fresh;
    if (!first) return;
    if (comparePositions(first.previous, this.#last) > 0) {
      this.#chunks = [];
      this.#floor = first.previous;
    }
    this.#push(fresh);
  }

  /** At most `limit` chunks after `position`. What was dropped already is not among them: see `floor`. */
  after(position: string, limit: number): LoggedChunk[] {
    // Readers are mostly near the end.
    let start = this.#chunks.length;
    while (start > 0 && comparePositions(this.#chunks[start - 1]?.id ?? beginning, position) > 0) start--;
    return this.#chunks.slice(start, start + limit);
  }

  covers(position: string): boolean {
    return comparePositions(position, this.#floor) >= 0;
  }

  /** Goes on behind `last`, which another log had reached. */
  startAfter(last: string): void {
    if (comparePositions(last, this.#last) <= 0) return;
    this.#chunks = [];
    this.#floor = last;
    this.#last = last;
  }

  #push(chunks: readonly LoggedChunk[]): void {
    this.#chunks.push(...chunks);
    this.#last = chunks.at(-1)?.id ?? this.#last;
    // Dropped a tenth at a time, since each time costs a copy.
    if (this.#chunks.length <= this.#maxChunks * 1.1) return;
    const dropped = this.#chunks.splice(0, this.#chunks.length - this.#maxChunks);
    this.#floor = dropped.at(-1)?.id ?? this.#floor;
  }
}
