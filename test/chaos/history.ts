/** What a chaos run leaves behind for judging: facts only, all times in ms of the one machine's wall clock. */

export interface Note {
  /** `step`: one of several things done for one signal. */
  readonly event: 'start' | 'step' | 'signal' | 'end';
  /** When the agent looked at its abort signal, right before it acted. */
  readonly atMs: number;
  readonly thread: string;
  readonly pod: string;
  readonly agent: string;
  readonly runId: string;
  /** On Redis a token is the time of its grant in microseconds, or the last token + 1 if that is more. */
  readonly token: number;
  readonly attempt: number;
  /** For `signal`. */
  readonly signalId?: string;
}

/** A signal that a client was told is accepted. */
export interface Acceptance {
  readonly id: string;
  readonly thread: string;
  /** Senders work one signal after the other; `order` counts a sender's signals. */
  readonly sender: string;
  readonly order: number;
  readonly agent: string;
  readonly turn: 'current' | 'next';
  readonly action: string;
  /** The run that its sender was told of. */
  readonly runId?: string;
  /** Requests until one was answered. */
  readonly tries: number;
  /** When it was first sent, and when it was known to be accepted. */
  readonly fromMs: number;
  readonly atMs: number;
}

/** What a run was given. Not something that it did: noted also when the run is to stop before it does anything. */
export interface Given {
  readonly thread: string;
  readonly runId: string;
  readonly signalIds: readonly string[];
}

/** A request to stop a run, to take back what waits, or both. */
export interface Withdrawal {
  readonly thread: string;
  /** Which one was asked. */
  readonly pod: string;
  /** The signals that it is about; absent: all that wait. Empty: none, it is about the run only. */
  readonly signalIds?: readonly string[];
  /** The run that is to stop; `any`: whichever is on; absent: none, it is about signals only. */
  readonly stops?: 'any' | (string & {});
  readonly fromMs: number;
  readonly toMs: number;
  /** Absent: nobody knows what became of it, or when it takes effect. */
  readonly answer?: { readonly stopped?: string; readonly withdrawn: readonly string[] };
}

/** Something that may explain why things went wrong, whoever made it. */
export interface Fault {
  readonly kind: string;
  /** Absent: it hit all pods, by way of Redis or the machine. */
  readonly pod?: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** One chunk of a thread's output, in the order of the output. */
export interface OutputRow {
  readonly thread: string;
  readonly runId: string;
  readonly type: string;
  readonly text?: string;
  /** Of an `abort`: why. */
  readonly reason?: string;
}

export interface History {
  /** In the order in which they arrived. */
  readonly notes: readonly Note[];
  readonly given: readonly Given[];
  readonly withdrawals: readonly Withdrawal[];
  readonly acceptances: readonly Acceptance[];
  /** Ids that were sent and whose fate the sender never learned: they may run or not. */
  readonly unanswered: ReadonlySet<string>;
  readonly deadLettered: ReadonlySet<string>;
  readonly faults: readonly Fault[];
  /** Faults that nobody made. */
  readonly stalls: readonly Fault[];
  readonly output: readonly OutputRow[];
  /** Keys of idle threads that should be gone after everything came to rest. */
  readonly leftovers: readonly string[];
}

export function describeNote({ event, atMs, pod, runId, token, attempt, signalId }: Note): string {
  return `${new Date(atMs).toISOString().slice(11, 23)} ${pod} ${event}${signalId === undefined ? '' : ` ${signalId}`} run ${runId} token ${token} attempt ${attempt}`;
}

export function describeFault({ kind, pod, fromMs, toMs }: Fault): string {
  return `${new Date(fromMs).toISOString().slice(11, 23)} fault ${kind}${pod === undefined ? '' : ` of ${pod}`} for ${Math.round(toMs - fromMs)} ms`;
}

export function describeWithdrawal({ signalIds, stops, fromMs, toMs, answer }: Withdrawal): string {
  const what = [stops === undefined ? '' : `abort of run ${stops}`, signalIds?.length === 0 ? '' : `cancel of ${signalIds?.join(' ') ?? 'all'}`];
  const said = answer ? `stopped ${answer.stopped ?? 'none'}, took back ${answer.withdrawn.join(' ') || 'none'}` : 'no answer';
  return `${new Date(fromMs).toISOString().slice(11, 23)} ${what.filter(Boolean).join(' and ')}, ${said} after ${toMs - fromMs} ms`;
}
