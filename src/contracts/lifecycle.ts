/**
 * What happens to an instance as a whole, for whoever tells people: Kubernetes Events now. Nothing here names a thread, a run
 * or a lease, and nothing here happens once per lease for good reasons.
 */

export type LifecycleEvent =
  | { readonly type: 'started'; readonly backend: string }
  | { readonly type: 'settings_applied'; readonly source: string; readonly values: Readonly<Record<string, unknown>> }
  /** `problems`: one line each, safe to show. */
  | { readonly type: 'settings_refused'; readonly source: string; readonly problems: readonly string[] }
  | { readonly type: 'renewals_failing' }
  | { readonly type: 'renewals_restored' }
  | { readonly type: 'lease_lost' }
  /** The store refused a write because its lease was no longer the current one. */
  | { readonly type: 'stale_owner_fenced' }
  | { readonly type: 'store_lost' }
  | { readonly type: 'store_restored' }
  | { readonly type: 'drain_started'; readonly ownedThreads: number; readonly timeoutMs: number }
  /** `stopped`: runs that were cut short; `abandoned`: those that did not stop even then. */
  | { readonly type: 'drain_ended'; readonly stopped: number; readonly abandoned: number }
  | { readonly type: 'signals_dead_lettered'; readonly count: number };

export interface LifecycleListener {
  /** Returns at once and never throws. */
  happened(event: LifecycleEvent): void;
}

/** Where settings came from that a person may edit while the instance runs. */
export type ReloadableSource = 'chart' | 'tuning';

/** All values that a source holds now. Never throws; what is wrong with them is said elsewhere. */
export type SettingsFeed = (source: ReloadableSource, values: Readonly<Record<string, string>>) => void;

/** What a source of settings went through; each is counted. `missed`: a change that a watch which stood did not tell of. */
export type SourceTrouble = 'missed' | 'unparsable' | 'expired' | 'silent' | 'failed';
