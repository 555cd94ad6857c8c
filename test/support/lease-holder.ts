/**
 * A process that takes a lease and acts under it, for tests that stop, block and cut off processes. Each act is a line in a
 * file, written at once: an effect that nothing can take back. Started by `lease-holders.ts`.
 */

import { openSync, writeSync } from 'node:fs';

import { systemClock } from '../../src/core/clock.ts';
import { isSignalsError } from '../../src/core/errors.ts';
import { acquire } from '../../src/leases/acquire.ts';
import { LeaseKeeper } from '../../src/leases/lease-keeper.ts';
import type { HeldLease } from '../../src/leases/lease-keeper.ts';
import { RedisConnector } from '../../src/redis/connection.ts';
import { RedisKeys } from '../../src/redis/keys.ts';
import { RedisLeaseProvider } from '../../src/redis/leases.ts';
import type { HolderCommand, HolderConfig, HolderEvent } from './lease-holders.ts';
import { failOpenAcquire, NaiveKeeper } from './lease-mutants.ts';

const config = JSON.parse(process.argv[2] ?? '{}') as HolderConfig;
const { key, owner, ttlMs } = config;
const settings = { ttlMs, renewIntervalMs: ttlMs / 3, driftMs: Math.min(ttlMs / 4, ttlMs / 100 + 500) };
const acts = openSync(config.actsFile, 'a');

const client = new RedisConnector({ url: config.url }, { commandTimeoutMs: 400 }).open('commands');
const provider = new RedisLeaseProvider(client, new RedisKeys(config.prefix));
const options = { provider, settings: () => settings, clock: systemClock };
const isOurs = config.manner === 'ours';
const keeper = isOurs ? new LeaseKeeper(options) : new NaiveKeeper(options, { knowsNoDeadline: true, ignoresNo: true });
const take = isOurs ? acquire : failOpenAcquire;

function tell(event: HolderEvent): void {
  process.send?.(event);
}

function act(held: HeldLease, fencingToken: number | undefined): void {
  const timer = setInterval(() => {
    try {
      held.assertHeld();
    } catch (error) {
      clearInterval(timer);
      return tell({ event: 'stopped', code: isSignalsError(error) ? error.code : 'unknown', atMs: Date.now() });
    }
    writeSync(acts, `${JSON.stringify({ atMs: Date.now(), owner, fencingToken })}\n`);
  }, 20);
}

async function contend(): Promise<void> {
  try {
    const grant = await take(provider, key, owner, ttlMs, systemClock, settings.driftMs);
    if (grant) {
      tell({ event: 'started' });
      return act(keeper.hold(grant), grant.fencingToken);
    }
    tell({ event: 'not acquired' });
  } catch (error) {
    tell({ event: 'failed', retryable: isSignalsError(error) && error.retryable });
  }
  setTimeout(() => void contend(), 30);
}

process.on('message', (command: HolderCommand) => {
  if (command.do === 'contend') void contend();
  if (command.do === 'block') {
    const untilMs = performance.now() + command.ms;
    while (performance.now() < untilMs);
  }
});
process.on('disconnect', () => process.exit(0));
client.connect().then(
  () => tell({ event: 'connected' }),
  () => tell({ event: 'connected' }), // it goes on trying; a store that is away is what some tests are about
);
