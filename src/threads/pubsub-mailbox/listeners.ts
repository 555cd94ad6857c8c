/** Those in this process who want hints. One that throws keeps no other from hearing them. */

import type { MailboxListener } from '../../contracts/thread-mailbox.ts';
import { errorMessage } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';

export class Listeners {
  readonly #logger: Logger;
  readonly #listeners = new Set<MailboxListener>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Answers how to stop. */
  add(listener: MailboxListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  clear(): void {
    this.#listeners.clear();
  }

  hint(tell: (listener: MailboxListener) => void): void {
    for (const listener of this.#listeners) {
      try {
        tell(listener);
      } catch (error) {
        this.#logger.error('a mailbox listener failed', { error: errorMessage(error) });
      }
    }
  }
}
