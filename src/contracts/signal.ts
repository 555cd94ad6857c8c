/** One input to a thread, and what its sender wants done with it. */

export interface Signal {
  /** Chosen by the sender, or made on arrival. The same id is accepted once within the dedupe window. */
  readonly id: string;
  /** `user`, `notification`, `reactive`, `state`, ... Carried as it is. */
  readonly type: string;
  readonly contents: unknown;
  readonly attributes?: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Further fields of the peer's signals (`tagName`, `providerOptions`, `transient`, ...), carried untouched. */
  readonly [extra: string]: unknown;
}

export type ActiveBehavior = 'deliver' | 'persist' | 'discard';
export type IdleBehavior = 'wake' | 'persist' | 'discard';

/** `current`: into the run that is on. `next`: a turn of its own, after those before it. */
export type Turn = 'current' | 'next';

export interface Branch<Behavior> {
  readonly behavior: Behavior;
  /** Merged over the signal's own attributes when this branch is the one taken. */
  readonly attributes?: Readonly<Record<string, unknown>>;
}

/** W3C trace context as it travels beside a signal. */
export type TraceCarrier = Readonly<Record<string, string>>;

/** A signal with everything that its run will need, as the mailbox stores it. */
export interface Envelope {
  readonly agentId: string;
  readonly signal: Signal;
  readonly turn: Turn;
  /** What the sender said about runs that this signal starts (request context, memory, ...). Opaque here. */
  readonly runOptions?: unknown;
  readonly trace?: TraceCarrier;
}
