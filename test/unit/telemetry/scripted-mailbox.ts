/** A mailbox that answers what it is told to: how the real ones answer is tested with the real ones. */

import type { ThreadMailbox } from '../../../src/contracts/thread-mailbox.ts';

export function scriptedMailbox(answers: Partial<ThreadMailbox>): ThreadMailbox {
  const unexpected = () => Promise.reject(new Error('not expected in this test'));
  return {
    deliver: unexpected,
    claim: unexpected,
    take: unexpected,
    settle: unexpected,
    spare: unexpected,
    append: unexpected,
    follow: unexpected,
    abort: unexpected,
    due: unexpected,
    inspect: unexpected,
    waiting: unexpected,
    listen: unexpected,
    close: () => Promise.resolve(),
    ...answers,
  };
}
