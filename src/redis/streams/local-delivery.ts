/** `localOnly` events: handed over as they are, within this process. There is nothing to settle and nobody to redeliver. */

import type { Event } from '../../contracts/pubsub.ts';
import { errorMessage } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Subscription } from './subscriptions.ts';

export function deliverLocally(subscriptions: readonly Subscription[], event: Event, logger: Logger): void {
  const served = new Set<string>();
  for (const { callback, options } of subscriptions) {
    // Members of a group share these events as they share all others.
    if (options.group !== undefined && served.has(options.group)) continue;
    if (options.group !== undefined) served.add(options.group);
    invoke(callback, event, logger);
  }
}

function invoke(callback: Subscription['callback'], event: Event, logger: Logger): void {
  const nothing = () => Promise.resolve();
  const failed = (error: unknown) => logger.debug('a local handler failed', { type: event.type, error: errorMessage(error) });
  try {
    Promise.resolve(callback(event, nothing, nothing, nothing)).catch(failed);
  } catch (error) {
    failed(error);
  }
}
