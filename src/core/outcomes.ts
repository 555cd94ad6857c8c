/** The outcomes of DESIGN section 9: what spans, metrics and callers may say of an operation, in one place. */

export type AcquireOutcome = 'acquired' | 'already_owned' | 'held' | 'error' | 'timeout';
export type RenewOutcome = 'renewed' | 'lost' | 'error' | 'timeout';
export type TransferOutcome = 'transferred' | 'not_owner' | 'no_candidate' | 'error';
export type ReleaseOutcome = 'released' | 'not_owner' | 'expired' | 'error';

export type LeaseOperation = 'acquire' | 'renew' | 'transfer' | 'release';

/** Why an owner no longer holds its lease. */
export type HoldEnd = 'released' | 'transferred' | 'lost' | 'expired' | 'abandoned';

/** Why a run is over. */
export type RunEnd = 'finished' | 'failed' | 'aborted' | 'lease_lost' | 'drained';

/** How an accepted signal leaves the mailbox (S4). */
export type SignalEnd = 'settled' | 'discarded' | 'dead_lettered';

/** What became of a signal when it was routed. */
export type RouteDecision = 'wake' | 'deliver' | 'persist' | 'discard' | 'blocked' | 'duplicate' | 'refused' | 'error';
