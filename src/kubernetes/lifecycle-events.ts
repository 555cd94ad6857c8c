/** What happens to an instance, in the words of Kubernetes Events. Reasons are names that people search and alert by. */

import type { LifecycleEvent } from '../contracts/lifecycle.ts';

export interface EventText {
  readonly type: 'Normal' | 'Warning';
  /** CamelCase, like those of Kubernetes itself. */
  readonly reason: string;
  readonly action: string;
  /** Events with the same reason and note are one series: what differs each time does not belong here. */
  readonly note: string;
}

/** Those that say the same each time. */
const fixedTexts = {
  renewals_failing: warning('LeaseRenewalsDegraded', 'RenewLeases', 'Leases could not be renewed; tried again until they expire.'),
  renewals_restored: normal('LeaseRenewalsRestored', 'RenewLeases', 'Leases are being renewed again.'),
  lease_lost: warning('LeasesLost', 'StopRuns', 'Leases were lost or could not be renewed in time; their runs were stopped.'),
  stale_owner_fenced: warning('StaleOwnerFenced', 'RefuseWrite', 'Writes under a lease that is no longer the current one were refused.'),
  store_lost: warning('StoreUnreachable', 'Connect', 'Redis is not reachable; no thread is taken until it is.'),
  store_restored: normal('StoreReachable', 'Connect', 'Redis is reachable again.'),
  signals_dead_lettered: warning(
    'SignalsDeadLettered', 'DeadLetter', 'Signals were given up after too many deliveries; see /v1/dead-letters.',
  ),
} as const satisfies Partial<Record<LifecycleEvent['type'], EventText>>;

export function eventTextOf(event: LifecycleEvent): EventText {
  switch (event.type) {
    case 'started':
      return normal('Started', 'Start', `Takes threads (backend: ${event.backend}).`);
    case 'settings_applied':
      return normal('SettingsReloaded', 'Reload', `Settings of ${sourceName(event.source)} are in effect: ${valuesText(event.values)}.`);
    case 'settings_refused':
      return warning(
        'SettingsRefused',
        'Reload',
        `Settings of ${sourceName(event.source)} are refused, the last good ones stay: ${event.problems.join('; ')}.`,
      );
    case 'drain_started':
      return normal('Draining', 'Drain', `Takes no more threads; ${event.ownedThreads} may finish within ${event.timeoutMs} ms.`);
    case 'drain_ended':
      return drainEnded(event.stopped, event.abandoned);
    case 'renewals_failing':
    case 'renewals_restored':
    case 'lease_lost':
    case 'stale_owner_fenced':
    case 'store_lost':
    case 'store_restored':
    case 'signals_dead_lettered':
      break;
  }
  return fixedTexts[event.type];
}

function drainEnded(stopped: number, abandoned: number): EventText {
  if (abandoned > 0) {
    const note = `${stopped} runs were stopped at the deadline, ${abandoned} did not stop: their leases run out by themselves.`;
    return warning('DrainIncomplete', 'Drain', note);
  }
  const cut = stopped > 0 ? `${stopped} runs were stopped at the deadline; their signals wait for a peer.` : 'All runs finished.';
  return normal('Drained', 'Drain', cut);
}

function sourceName(source: string): string {
  return `the ${source} ConfigMap`;
}

function valuesText(values: Readonly<Record<string, unknown>>): string {
  return Object.entries(values).map(([name, value]) => `${name}=${String(value)}`).join(', ');
}

function normal(reason: string, action: string, note: string): EventText {
  return { type: 'Normal', reason, action, note };
}

function warning(reason: string, action: string, note: string): EventText {
  return { type: 'Warning', reason, action, note };
}
