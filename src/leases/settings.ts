/** What the keeper and the actors need to know of the settings; a value that is read anew each time may change. */
export interface LeaseSettings {
  readonly ttlMs: number;
  readonly renewIntervalMs: number;
  /** Taken off every deadline: clock rates, and steps of the server's clock. */
  readonly driftMs: number;
}
