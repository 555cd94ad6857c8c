/** What the SDK has to say goes to our log, and no faster than somebody can read it. */

import type { DiagLogger } from '@opentelemetry/api';

import type { Logger } from '../../core/logger.ts';

/** The same complaint again within this time is only counted: an unreachable collector is one every few seconds. */
const quietMs = 60_000;
const maxRemembered = 100;

export class Diagnostics implements DiagLogger {
  readonly #logger: Logger;
  readonly #said = new Map<string, { atMs: number; suppressed: number }>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  error(message: string, ...details: unknown[]): void {
    this.#say(message, details);
  }

  warn(message: string, ...details: unknown[]): void {
    this.#say(message, details);
  }

  info(message: string): void {
    this.#logger.debug('telemetry', { detail: message });
  }

  debug(message: string): void {
    this.#logger.debug('telemetry', { detail: message });
  }

  verbose(): void {
    // Per-span chatter of the SDK, of use to nobody who runs this.
  }

  #say(message: string, details: readonly unknown[]): void {
    const detail = [readable(message), ...details.map(String)].join(' ').slice(0, 500);
    const nowMs = performance.now();
    const kind = detail.replace(/\d+/g, '#');
    const before = this.#said.get(kind);
    if (before && nowMs - before.atMs < quietMs) {
      before.suppressed++;
      return;
    }
    if (this.#said.size >= maxRemembered) this.#said.clear();
    this.#said.set(kind, { atMs: nowMs, suppressed: 0 });
    this.#logger.warn('telemetry failed', { detail, repeated: before?.suppressed ?? 0 });
  }
}

/** The SDK reports errors as JSON with stack and all; what went wrong is in their message. */
function readable(message: string): string {
  if (!message.startsWith('{')) return message;
  try {
    const error = JSON.parse(message) as { message?: unknown };
    return typeof error.message === 'string' ? error.message : message;
  } catch {
    return message; // it only looked like JSON
  }
}
