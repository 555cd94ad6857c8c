import { describe, expect, test } from 'vitest';

import type { LifecycleEvent } from '../../src/contracts/lifecycle.ts';
import { silentObserver } from '../../src/contracts/observer.ts';
import type { Grant, SettleRequest, ThreadMailbox } from '../../src/contracts/thread-mailbox.ts';
import { SignalsError } from '../../src/core/errors.ts';
import { LeaseKeeper } from '../../src/leases/lease-keeper.ts';
import { Lifecycle, reloadSettings, reportingMailbox, reportingObserver, watchStore } from '../../src/lifecycle.ts';
import { leaseVariables } from '../../src/settings/lease-settings.ts';
import { SettingsStore } from '../../src/settings/settings-store.ts';
import { Instrumentation } from '../../src/telemetry/instrumentation.ts';
import { FakeClock } from '../support/fake-clock.ts';

const thread = { resourceId: 'r', threadId: 't' };
const grant: Grant = { key: 'k', owner: 'a/1', ttlMs: 15_000, askedAt: { monotonicMs: 0, wallMs: 0 } };

function listening(): { lifecycle: Lifecycle; events: LifecycleEvent[]; types: () => string[] } {
  const lifecycle = new Lifecycle();
  const events: LifecycleEvent[] = [];
  lifecycle.add({ happened: event => void events.push(event) });
  return { lifecycle, events, types: () => events.map(event => event.type) };
}

const stale = () => Promise.reject(new SignalsError('SIG_LEASE_LOST', 'not the owner'));
const away = () => Promise.reject(new SignalsError('SIG_STORE_UNAVAILABLE', 'away'));

/** Only what is asked here. */
function mailboxWith(methods: Partial<ThreadMailbox>): ThreadMailbox {
  return methods as ThreadMailbox;
}

describe('what happens to an instance is told', () => {
  test('a stale owner that was refused, whatever it tried; a store that is away is something else', async () => {
    const { lifecycle, types } = listening();
    const settle: SettleRequest = { thread, grant, consumed: ['1'] };
    const refused = reportingMailbox(mailboxWith({ take: stale, append: stale, settle: stale }), lifecycle);
    await expect(refused.take({ thread, grant })).rejects.toThrow('not the owner');
    await expect(refused.append(thread, grant, [])).rejects.toThrow('not the owner');
    await expect(refused.settle(settle)).rejects.toThrow('not the owner');
    expect(types()).toEqual(['stale_owner_fenced', 'stale_owner_fenced', 'stale_owner_fenced']);
    const unreachable = reportingMailbox(mailboxWith({ append: away }), lifecycle);
    await expect(unreachable.append(thread, grant, [])).rejects.toThrow('away');
    expect(types()).toHaveLength(3);
  });

  test('a thread that a peer took over when it was offered is not a stale owner', async () => {
    const { lifecycle, types } = listening();
    const mailbox = reportingMailbox(mailboxWith({ settle: stale }), lifecycle);
    await expect(mailbox.settle({ thread, grant, consumed: [] })).rejects.toThrow('not the owner');
    expect(types()).toEqual([]);
    await expect(mailbox.settle({ thread, grant, consumed: [], offerMs: 500 })).rejects.toThrow('not the owner');
    expect(types()).toEqual(['stale_owner_fenced']);
  });

  test('signals that were given up, with their number', async () => {
    const { lifecycle, events } = listening();
    const take = () => Promise.resolve({ entries: [], cursor: '0', abortRequested: false, deadLettered: 3 });
    await reportingMailbox(mailboxWith({ take }), lifecycle).take({ thread, grant });
    expect(events).toEqual([{ type: 'signals_dead_lettered', count: 3 }]);
  });

  test('leases that were lost, and not those that were given up', () => {
    const { lifecycle, types } = listening();
    const observer = reportingObserver(silentObserver, lifecycle);
    for (const end of ['released', 'transferred', 'abandoned'] as const) observer.ended('k', end, 1);
    expect(types()).toEqual([]);
    for (const end of ['lost', 'expired'] as const) observer.ended('k', end, 1);
    expect(types()).toEqual(['lease_lost', 'lease_lost']);
  });

  test('renewals that get no answer, once when that begins and once when it ends, however many leases', async () => {
    const { lifecycle, types } = listening();
    const clock = new FakeClock();
    let failing = false;
    const settings = { ttlMs: 15_000, renewIntervalMs: 5000, driftMs: 650 };
    const keeper = new LeaseKeeper({
      provider: {
        acquireLease: () => Promise.resolve({ acquired: true }),
        getLeaseOwner: () => Promise.resolve('a/1'),
        releaseLease: () => Promise.resolve(),
        transferLease: () => Promise.resolve(true),
        renewLease: () => (failing ? away() : Promise.resolve(true)),
      },
      settings: () => settings,
      clock,
      observer: reportingObserver(silentObserver, lifecycle),
      random: () => 0.5,
    });
    for (let lease = 0; lease < 20; lease++) {
      const key = `k${lease}`;
      const askedAt = { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
      keeper.hold({ key, owner: 'a/1', ttlMs: settings.ttlMs, askedAt });
    }
    await clock.advance(4000);
    failing = true;
    await clock.advance(6000);
    expect(types()).toEqual(['renewals_failing']);
    failing = false;
    await clock.advance(4000);
    expect(types()).toEqual(['renewals_failing', 'renewals_restored']);
    keeper.close();
  });

  test('a store that goes away and comes back, once each', async () => {
    const { lifecycle, types } = listening();
    const clock = new FakeClock();
    let reachable = true;
    const stop = watchStore(() => reachable, lifecycle, clock);
    await clock.advance(5000);
    reachable = false;
    await clock.advance(60_000);
    reachable = true;
    await clock.advance(60_000);
    expect(types()).toEqual(['store_lost', 'store_restored']);
    stop();
    expect(clock.pendingTimers).toBe(0);
  });

  test('settings that were read again: applied with their values, refused with the reason, unchanged with nothing', () => {
    const { lifecycle, events } = listening();
    const reload = reloadSettings(new SettingsStore(), new Instrumentation(), lifecycle);
    reload('tuning', { [leaseVariables.ttlMs]: '30000' });
    reload('tuning', { [leaseVariables.ttlMs]: '30000' });
    reload('tuning', { [leaseVariables.ttlMs]: 'soon' });
    expect(events).toMatchObject([
      { type: 'settings_applied', source: 'tuning', values: { [leaseVariables.ttlMs]: 30_000 } },
      { type: 'settings_refused', source: 'tuning', problems: [`${leaseVariables.ttlMs} must be a whole number of milliseconds, 1000 to 600000, got "soon"`] },
    ]);
    expect(events).toHaveLength(2);
  });
});
