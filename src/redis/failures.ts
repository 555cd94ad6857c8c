/** What a Redis failure means for whoever has to decide what comes next. */

import { errorMessage } from '../core/errors.ts';

/** Replies that mean "not here" or "not now": failover, loading, resharding, too few replicas. */
const transientReplies =
  /^(READONLY|LOADING|MOVED|ASK|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|NOREPLICAS|UNBLOCKED|UNKILLABLE|BUSY) ?/;
const movedReplies = /^(MOVED|ASK|CLUSTERDOWN|TRYAGAIN) ?/;
const refusedReplies = /^(NOPERM|ERR unknown command|ERR unknown subcommand)/i;

/** Worth trying again: the connection failed, or the server said "not now". */
export function isTransient(error: unknown): boolean {
  return !(error instanceof Error) || error.name !== 'ReplyError' || transientReplies.test(error.message);
}

export function isMoved(error: unknown): boolean {
  return movedReplies.test(errorMessage(error));
}

export function isNoGroup(error: unknown): boolean {
  return errorMessage(error).startsWith('NOGROUP');
}

/** The server, or who runs it, does not let us use this command. */
export function isRefused(error: unknown): boolean {
  return refusedReplies.test(errorMessage(error));
}
