/** A thread's waiting signals in memory: what is accepted, what a run gets, what is given up. No leases here. */

import type { DeadLetter } from '../../contracts/mailbox-operations.ts';
import type { Envelope } from '../../contracts/signal.ts';
import { decodeEnvelope } from '../../contracts/stored-envelope.ts';
import type { TakenBranch } from '../../contracts/stored-envelope.ts';
import type { DeliverRequest, Delivery, InboxEntry, MailboxLimits, Taken, TakeRequest } from '../../contracts/thread-mailbox.ts';
import { SignalsError } from '../../core/errors.ts';
import { beginning, comparePositions, laterOf, nextPosition } from './positions.ts';

/** Dead letters kept per thread, and for how long: a week to look at them. */
const deadLettersKept = 100;
const deadLettersKeptMs = 7 * 24 * 3_600_000;

export interface StoredEntry {
  readonly id: string;
  readonly signalId: string;
  readonly agentId: string;
  readonly turn: Envelope['turn'];
  readonly branch: TakenBranch;
  readonly wakes: boolean;
  /** The envelope as JSON: a copy that its sender can't change, and what its size is measured by. */
  readonly text: string;
  readonly bytes: number;
  readonly attempts: number;
  /** Owners that were given it and have not accounted for it: their runs may have died of it. */
  readonly open: readonly string[];
}

/** An entry that was given up. */
export interface DeadEntry {
  /** Position among the dead letters. */
  readonly id: string;
  readonly entry: StoredEntry;
  readonly atMs: number;
}

export interface SeenSignal {
  readonly action: Delivery['action'];
  /** Whose run it was for, if anybody's. */
  readonly owner?: string;
  readonly untilMs: number;
}

/** All of it, as it travels to the thread's next owner. */
export interface InboxContents {
  /** The newest position that was given out. */
  readonly last: string;
  readonly entries: readonly StoredEntry[];
  readonly seen: readonly (readonly [signalId: string, seen: SeenSignal])[];
  readonly dead: readonly DeadEntry[];
}

export class ThreadInbox {
  readonly #limits: MailboxLimits;
  #entries: StoredEntry[] = [];
  #seen = new Map<string, SeenSignal>();
  #dead: DeadEntry[] = [];
  #bytes = 0;
  #last = beginning;

  constructor(limits: MailboxLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#entries.length;
  }

  /** Signals that wait and wake. */
  get waking(): number {
    return this.#entries.reduce((count, entry) => count + (entry.wakes ? 1 : 0), 0);
  }

  /** Whose run it is that starts next. */
  get nextAgentId(): string | undefined {
    return this.#entries.find(entry => entry.wakes)?.agentId;
  }

  get oldest(): string | undefined {
    return this.#entries[0]?.id;
  }

  /** Oldest first. */
  get deadLetters(): DeadLetter[] {
    return this.#dead.map(({ id, entry, atMs }) => ({
      id,
      envelope: decode(entry).envelope,
      attempts: entry.attempts,
      at: new Date(atMs).toISOString(),
    }));
  }

  /** Takes waiting signals out, those with these ids or all; answers which. What the run of `owner`, which is on, was given stays. */
  cancel(signalIds: readonly string[] | undefined, owner: string | undefined): string[] {
    const cancelled = this.#entries.filter(
      entry => (signalIds?.includes(entry.signalId) ?? true) && (owner === undefined || !entry.open.includes(owner)),
    );
    this.remove(cancelled.map(entry => entry.id));
    return cancelled.map(entry => entry.signalId);
  }

  /** Puts dead letters back as if they had just been accepted; answers how many. */
  replay(ids: readonly string[] | undefined, wallMs: number): number {
    const chosen = this.#dead.filter(({ id }) => ids?.includes(id) ?? true);
    this.#dead = this.#dead.filter(letter => !chosen.includes(letter));
    for (const { entry } of chosen) {
      this.#last = nextPosition(this.#last, wallMs);
      this.#entries.push({ ...entry, id: this.#last, wakes: true, attempts: 0, open: [] });
      this.#bytes += entry.bytes;
    }
    return chosen.length;
  }

  /** What became of a signal id that was accepted within the dedupe window. */
  seen(signalId: string, wallMs: number): SeenSignal | undefined {
    const seen = this.#seen.get(signalId);
    return seen && seen.untilMs > wallMs ? seen : undefined;
  }

  /** Accepts a signal, for the run of `owner` if there is or will be one. Throws `SIG_INBOX_FULL`. */
  accept(request: DeliverRequest, text: string, branch: TakenBranch, owner: string | undefined, wallMs: number): Delivery['action'] {
    const { signal, agentId, turn } = request.envelope;
    const action = branch === 'active' ? request.ifActive.behavior : request.ifIdle.behavior;
    if (action !== 'discard') {
      const bytes = Buffer.byteLength(text);
      this.#requireRoom(bytes);
      this.#last = nextPosition(this.#last, wallMs);
      const wakes = action !== 'persist';
      this.#entries.push({ id: this.#last, signalId: signal.id, agentId, turn, branch, wakes, text, bytes, attempts: 0, open: [] });
      this.#bytes += bytes;
    }
    this.#forgetOld(wallMs);
    this.#seen.set(signal.id, { action, untilMs: wallMs + this.#limits.dedupeWindowMs, ...(owner !== undefined && { owner }) });
    return action;
  }

  /** For the run of `owner`; see `TakeRequest` for which entries those are. */
  take(owner: string, join: TakeRequest['join'], wallMs: number): Omit<Taken, 'abortRequested'> {
    const sizeBefore = this.#entries.length;
    const after = join?.cursor ?? beginning;
    const leader = join ? undefined : this.#leader(owner, wallMs);
    const agentId = join?.agentId ?? leader?.agentId;
    const given = this.#entries.filter(
      entry =>
        entry.agentId === agentId &&
        (entry === leader || entry.turn === 'current') &&
        comparePositions(entry.id, after) > 0 &&
        !this.#buryIfSpent(entry, owner, wallMs),
    );
    const ids = new Set(given.map(entry => entry.id));
    this.#countDelivery(ids, owner);
    return {
      entries: this.#entries.filter(entry => ids.has(entry.id)).map(decode),
      cursor: laterOf(after, this.#entries.at(-1)?.id ?? beginning),
      deadLettered: sizeBefore - this.#entries.length,
    };
  }

  remove(ids: readonly string[]): void {
    const gone = new Set(ids);
    this.#entries = this.#entries.filter(entry => {
      if (!gone.has(entry.id)) return true;
      this.#bytes -= entry.bytes;
      return false;
    });
  }

  /** The run of `owner` is over and its signals did not end it. Those that it was given and never read count as never given. */
  account(owner: string, unread: readonly string[] = []): void {
    const returned = new Set(unread);
    this.#entries = this.#entries.map(entry => {
      if (!entry.open.includes(owner)) return entry;
      const attempts = returned.has(entry.id) ? entry.attempts - 1 : entry.attempts;
      return { ...entry, attempts, open: entry.open.filter(other => other !== owner) };
    });
  }

  hasAny(ids: readonly string[]): boolean {
    const asked = new Set(ids);
    return this.#entries.some(entry => asked.has(entry.id));
  }

  /** Waking signals that would be left without `ids`. */
  wakingWithout(ids: readonly string[]): number {
    const gone = new Set(ids);
    return this.#entries.filter(entry => entry.wakes && !gone.has(entry.id)).length;
  }

  contents(): InboxContents {
    return { last: this.#last, entries: [...this.#entries], seen: [...this.#seen], dead: this.#dead };
  }

  /**
   * Drops what another process has taken over, ids included: knowing an id means having its entry, or having seen to it. Should
   * the entry ever come back, it is taken for a new one and not for one that was run.
   */
  forget({ entries, dead }: InboxContents): void {
    this.remove(entries.map(entry => entry.id));
    for (const { signalId } of entries) this.#seen.delete(signalId);
    const gone = new Set(dead.map(letter => letter.id));
    this.#dead = this.#dead.filter(letter => !gone.has(letter.id));
  }

  /** Hands everything out and is empty then. */
  empty(): InboxContents {
    const contents = this.contents();
    this.#entries = [];
    this.#seen = new Map();
    this.#dead = [];
    this.#bytes = 0;
    return contents;
  }

  /**
   * Takes over what another process held, when a run is about to start: among what waits here, by position, so in the order
   * of acceptance as far as the two knew of each other. An id that is known here was accepted here as well and is not
   * taken twice.
   */
  merge(contents: InboxContents): void {
    const fresh = this.#freshOf(contents);
    this.#take(contents, fresh);
    const all = [...this.#entries, ...fresh].sort((a, b) => comparePositions(a.id, b.id));
    this.#entries = [];
    let previous = beginning;
    for (const entry of all) {
      // Two processes may have given out the same position.
      const id = comparePositions(entry.id, previous) > 0 ? entry.id : nextPosition(previous, 0);
      this.#entries.push({ ...entry, id });
      previous = id;
    }
    this.goOnAfter(previous);
  }

  /** Takes it over while a run is on: as new arrivals, since that run has read up to a position already. */
  append(contents: InboxContents, wallMs: number): void {
    const fresh = this.#freshOf(contents);
    this.#take(contents, fresh);
    for (const entry of fresh) {
      this.#last = nextPosition(this.#last, wallMs);
      this.#entries.push({ ...entry, id: this.#last });
    }
  }

  /** The newest position that was given out. */
  get last(): string {
    return this.#last;
  }

  /** What is accepted from now on comes after what another process has accepted, whatever its clock says. */
  goOnAfter(position: string): void {
    this.#last = laterOf(this.#last, position);
  }

  /** Whether there is nothing left to remember. */
  isForgettable(wallMs: number): boolean {
    this.#forgetOld(wallMs);
    this.#dead = this.#dead.filter(({ atMs }) => atMs + deadLettersKeptMs > wallMs);
    return this.#entries.length === 0 && this.#seen.size === 0 && this.#dead.length === 0;
  }

  /** The first that wakes; on the way those that had their deliveries are given up. */
  #leader(owner: string, wallMs: number): StoredEntry | undefined {
    for (;;) {
      const leader = this.#entries.find(entry => entry.wakes);
      if (!leader || !this.#buryIfSpent(leader, owner, wallMs)) return leader;
    }
  }

  #buryIfSpent(entry: StoredEntry, owner: string, wallMs: number): boolean {
    if (entry.open.includes(owner) || entry.open.length < this.#limits.maxDeliveryAttempts) return false;
    this.remove([entry.id]);
    const id = nextPosition(this.#dead.at(-1)?.id ?? beginning, wallMs);
    this.#dead = [...this.#dead, { id, entry, atMs: wallMs }].slice(-deadLettersKept);
    return true;
  }

  /** Once per owner, also if it asks again. */
  #countDelivery(ids: ReadonlySet<string>, owner: string): void {
    this.#entries = this.#entries.map(entry =>
      ids.has(entry.id) && !entry.open.includes(owner)
        ? { ...entry, attempts: entry.attempts + 1, open: [...entry.open, owner] }
        : entry,
    );
  }

  #freshOf({ entries }: InboxContents): StoredEntry[] {
    const known = new Set([...this.#seen.keys(), ...this.#entries.map(entry => entry.signalId)]);
    return entries.filter(entry => !known.has(entry.signalId));
  }

  /** All of it but the entries, whose sizes it counts. Ask for the fresh ones first: afterwards all are known. */
  #take(contents: InboxContents, fresh: readonly StoredEntry[]): void {
    for (const { bytes } of fresh) this.#bytes += bytes;
    for (const [signalId, what] of contents.seen) if (!this.#seen.has(signalId)) this.#seen.set(signalId, what);
    this.#dead = [...this.#dead, ...contents.dead].slice(-deadLettersKept);
    this.goOnAfter(contents.last);
  }

  #requireRoom(bytes: number): void {
    const { maxEntries, maxBytes } = this.#limits;
    if (this.#entries.length < maxEntries && this.#bytes + bytes <= maxBytes) return;
    throw new SignalsError('SIG_INBOX_FULL', `${this.#entries.length} signals (${this.#bytes} bytes) are waiting already`, {
      details: { maxEntries, maxBytes },
    });
  }

  /** The map is in order of acceptance and the window is one for all, so the old ones are in front. */
  #forgetOld(wallMs: number): void {
    for (const [signalId, { untilMs }] of this.#seen) {
      if (untilMs > wallMs) return;
      this.#seen.delete(signalId);
    }
  }
}

function decode({ id, text, branch, wakes, attempts }: StoredEntry): InboxEntry {
  return { id, envelope: decodeEnvelope(text, branch), waking: wakes, attempt: attempts };
}
