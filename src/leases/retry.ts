import { backoffMs } from '../core/backoff.ts';
import type { LeaseSettings } from './settings.ts';

/**
 * How long a renewal may go without an answer before it is tried again: from a tenth of the interval up to half of it,
 * so that a lease gets several tries between its first renewal and its deadline, whatever the TTL.
 */
export function retryDelayMs(attempts: number, settings: LeaseSettings, random: () => number): number {
  return backoffMs(attempts, settings.renewIntervalMs / 10, settings.renewIntervalMs / 2, random);
}
