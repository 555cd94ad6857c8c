/** How long the steps of a stop may take, each, so that nothing can hold up the exit. The drain itself is a setting. */

export const stopLimits = {
  /** Beside the drain, which is longer. */
  sweepsMs: 2000,
  /** Agents that were aborted at the end of the drain; the last of it to give back what those were given that do not stop. */
  agentsMs: 5000,
  requestsMs: 2000,
  /** Whatever was started beside. Within it, what Events are still to be sent. */
  closersMs: 1000,
  kubernetesMs: 900,
  storeMs: 2000,
  telemetryMs: 3000,
} as const;

/** What the steps after the drain may take together. */
export const lastStepsMs = stopLimits.agentsMs + stopLimits.requestsMs + stopLimits.closersMs + stopLimits.storeMs + stopLimits.telemetryMs;

/** What is left for whoever sends the signals. The chart computes the grace period with the same. */
export const graceMarginMs = 5000;
