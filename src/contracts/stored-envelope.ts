/**
 * A signal as mailboxes keep it: the envelope as JSON, with the attributes of both branches. Which of them is taken is known only in
 * the step that accepts it.
 */

import { SignalsError } from '../core/errors.ts';
import type { Envelope } from './signal.ts';
import type { DeliverRequest } from './thread-mailbox.ts';

/** Whether the thread had an owner when the signal was accepted. */
export type TakenBranch = 'active' | 'idle';

type StoredEnvelope = Envelope & {
  readonly activeAttributes?: Readonly<Record<string, unknown>>;
  readonly idleAttributes?: Readonly<Record<string, unknown>>;
};

/** @param maxBytes of the text as UTF-8. Throws `SIG_SIGNAL_TOO_LARGE`. */
export function encodeEnvelope({ envelope, ifActive, ifIdle }: DeliverRequest, maxBytes: number): string {
  const stored: StoredEnvelope = {
    ...envelope,
    ...(ifActive.attributes && { activeAttributes: ifActive.attributes }),
    ...(ifIdle.attributes && { idleAttributes: ifIdle.attributes }),
  };
  const text = JSON.stringify(stored);
  const bytes = Buffer.byteLength(text);
  if (bytes <= maxBytes) return text;
  throw new SignalsError('SIG_SIGNAL_TOO_LARGE', `a signal may have ${maxBytes} bytes as JSON, this one has ${bytes}`);
}

/** The attributes of the branch are merged over the signal's own. */
export function decodeEnvelope(text: string, branch: TakenBranch): Envelope {
  const { activeAttributes, idleAttributes, ...envelope } = JSON.parse(text) as StoredEnvelope;
  const attributes = branch === 'active' ? activeAttributes : idleAttributes;
  if (!attributes) return envelope;
  const { signal } = envelope;
  return { ...envelope, signal: { ...signal, attributes: { ...signal.attributes, ...attributes } } };
}
