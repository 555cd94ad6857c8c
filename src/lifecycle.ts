/**
 * Where what happens to an instance as a whole comes together: from the leases' observer, from the mailbox's refusals, from
 * the store's connection, from settings that were read again. Who listens is added by the composition root.
 */

import type { LifecycleEvent, LifecycleListener, ReloadableSource } from './contracts/lifecycle.ts';
import type { Observer } from './contracts/observer.ts';
import type { SettleRequest, ThreadMailbox } from './contracts/thread-mailbox.ts';
import type { Clock, Timer } from './core/clock.ts';
import { isSignalsError } from './core/errors.ts';
import { leaseSettingNames, leaseVariables } from './settings/lease-settings.ts';
import { formatProblem } from './settings/problems.ts';
import type { SettingsStore } from './settings/settings-store.ts';
import type { Instrumentation } from './telemetry/instrumentation.ts';
import { observeReload } from './telemetry/lifecycle.ts';

export class Lifecycle implements LifecycleListener {
  readonly #listeners = new Set<LifecycleListener>();

  add(listener: LifecycleListener): void {
    this.#listeners.add(listener);
  }

  happened(event: LifecycleEvent): void {
    for (const listener of this.#listeners) listener.happened(event);
  }
}

/** `observer`, and what of it concerns the instance as a whole. */
export function reportingObserver(observer: Observer, to: LifecycleListener): Observer {
  return {
    held: key => observer.held(key),
    renewed: (key, headroom) => observer.renewed(key, headroom),
    renewalsFailing(failing) {
      observer.renewalsFailing?.(failing);
      to.happened({ type: failing ? 'renewals_failing' : 'renewals_restored' });
    },
    ended(key, end, heldMs) {
      observer.ended(key, end, heldMs);
      if (end === 'lost' || end === 'expired') to.happened({ type: 'lease_lost' });
    },
    routed: decision => observer.routed(decision),
    runStarted: facts => observer.runStarted(facts),
    takenOver: thread => observer.takenOver(thread),
    carrier: () => observer.carrier(),
  };
}

/** `mailbox`, whose refusals of stale owners and dead letters are told. */
export function reportingMailbox(mailbox: ThreadMailbox, to: LifecycleListener): ThreadMailbox {
  const fenced = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (isSignalsError(error, 'SIG_LEASE_LOST')) to.happened({ type: 'stale_owner_fenced' });
      throw error;
    }
  };
  return {
    deliver: request => mailbox.deliver(request),
    claim: (thread, claim) => mailbox.claim(thread, claim),
    async take(request) {
      const taken = await fenced(() => mailbox.take(request));
      if (taken.deadLettered) to.happened({ type: 'signals_dead_lettered', count: taken.deadLettered });
      return taken;
    },
    append: (thread, grant, chunks) => fenced(() => mailbox.append(thread, grant, chunks)),
    spare: (thread, grant) => mailbox.spare(thread, grant),
    settle: request => (endsOffer(request) ? mailbox.settle(request) : fenced(() => mailbox.settle(request))),
    follow: request => mailbox.follow(request),
    abort: (thread, request) => mailbox.abort(thread, request),
    due: limit => mailbox.due(limit),
    inspect: thread => mailbox.inspect(thread),
    waiting: limit => mailbox.waiting(limit),
    listen: (instanceId, listener) => mailbox.listen(instanceId, listener),
    close: () => mailbox.close(),
  };
}

/** Its refusal means that a peer took what was offered: what was wanted. */
function endsOffer({ next, offerMs, consumed }: SettleRequest): boolean {
  return next === undefined && offerMs === undefined && consumed.length === 0;
}

const storeLookMs = 1000;

/** Tells when the store can't be reached and when it can again. Answers how to stop. */
export function watchStore(reachable: () => boolean, to: LifecycleListener, clock: Clock): () => void {
  let before = true;
  let timer: Timer | undefined;
  const look = () => {
    const now = reachable();
    if (now !== before) to.happened({ type: now ? 'store_restored' : 'store_lost' });
    before = now;
    timer = clock.after(storeLookMs, look);
  };
  look();
  return () => timer?.cancel();
}

/** Takes what a source says into the settings, and shows it: as a span, on a metric, and to whoever listens. Never throws. */
export function reloadSettings(
  store: SettingsStore, on: Instrumentation, to: LifecycleListener,
): (source: ReloadableSource, values: Readonly<Record<string, string>>) => void {
  return (source, values) => {
    const { status, problems } = observeReload(on, source, () => store.apply(source, values));
    if (status === 'rejected') {
      to.happened({ type: 'settings_refused', source, problems: problems.map(formatProblem) });
    } else if (status === 'applied') {
      const effective = store.current().values;
      const shown = Object.fromEntries(leaseSettingNames.map(name => [leaseVariables[name], effective[name]]));
      to.happened({ type: 'settings_applied', source, values: shown });
    }
  };
}
