/** One look: is anything at risk now, and what is going on. */

import type { BoardSpec } from '../dashboard.ts';
import { happened, increase, orZero, quantile, rate, series, sumBy } from '../queries.ts';

const operations = 'signals_lease_operation_duration_seconds_count';

export const overview: BoardSpec = {
  uid: 'signals-overview',
  title: 'Overview',
  description: 'Is anything at risk now, and what is going on. Details are on the other Signals dashboards.',
  rows: [
    {
      title: 'At risk now',
      panels: [
        {
          title: 'Pods reporting',
          kind: 'stat',
          good: 'the number of replicas that you asked for.',
          queries: { pods: `count(${series('signals_lease_ttl_seconds')})` },
        },
        {
          title: 'Threads owned',
          kind: 'stat',
          good: 'follows the traffic. Flat at 0 with signals waiting: nobody can take leases.',
          queries: { threads: sumBy('', series('signals_lease_active')) },
          traces: { name: 'lease.acquire' },
        },
        {
          title: 'Runs on',
          kind: 'stat',
          good: 'close to the threads owned; a thread is owned for its runs and no longer.',
          queries: { runs: sumBy('', series('signals_run_active')) },
          traces: { name: 'thread.run' },
        },
        {
          title: 'Threads that nobody runs',
          what: 'Threads with waiting signals and no owner, as the pods last counted them in the store.',
          kind: 'stat',
          good: '0. Some for a moment after a crash. More for longer: no pod has room, or none can take leases.',
          queries: { threads: `max(${series('signals_inbox_waiting')})` },
          limits: { warn: 1, bad: 100 },
          noValue: 'unknown',
        },
        {
          title: 'Longest without an owner',
          what: 'Of the threads that nobody runs.',
          kind: 'stat',
          good: 'nothing, or about a sweep interval. Growing: nobody comes for that thread.',
          queries: { age: `max(${series('signals_inbox_oldest_age_seconds')})` },
          unit: 's',
          limits: { warn: 30, bad: 60 },
          noValue: 'none waits',
        },
        {
          title: 'Renewal headroom, lowest 1 %',
          what: 'Share of the TTL that was left when a renewal was confirmed.',
          kind: 'stat',
          good: 'above 50 % with the default interval of a third of the TTL. At 0 owners stop themselves.',
          queries: { headroom: quantile(0.01, 'signals_lease_renewal_headroom') },
          unit: 'percentunit',
          limits: { warn: 0.4, bad: 0.25, low: true },
          traces: { name: 'lease.renew' },
          noValue: 'no renewals',
        },
        {
          title: 'Alerts that are on',
          kind: 'table',
          good: 'an empty table. Each alert has an entry in the runbook: what it means, how to look, what to do.',
          queries: { alerts: 'ALERTS{alertname=~"Signals.+", alertstate="firing", cluster=~"$cluster", namespace=~"$namespace"}' },
          width: 24,
          height: 6,
        },
      ],
    },
    {
      title: 'Traffic',
      panels: [
        {
          title: 'Signals by what became of them',
          good: '`wake` and `deliver`; no `error` (the store was away), no `refused` (an inbox is full, or the pod drains).',
          queries: { '{{decision}}': sumBy('decision', rate('signals_route_decisions_total')) },
          unit: 'ops',
          traces: { name: 'signal.route' },
        },
        {
          title: 'Runs by how they ended',
          good: '`finished`. `failed` is the agent; `lease_lost` is ours; `drained` is a deploy that could not wait.',
          queries: { '{{end_reason}}': sumBy('end_reason', rate('signals_run_duration_seconds_count')) },
          unit: 'ops',
          traces: { name: 'thread.run' },
        },
        {
          title: 'Duration of runs',
          good: 'what your agents take. The buckets end at 82 s: longer runs are shown as that.',
          queries: {
            'half of them': quantile(0.5, 'signals_run_duration_seconds'),
            '95 %': quantile(0.95, 'signals_run_duration_seconds'),
          },
          unit: 's',
          traces: { name: 'thread.run' },
        },
        {
          title: 'Lease operations that failed',
          what: 'Share of acquires, renewals, transfers and releases that got no answer from the store, or an error.',
          good: '0. Anything else for longer than a moment: the store, or the way to it.',
          queries: {
            failed: `${orZero(sumBy('', rate(operations, 'outcome=~"error|timeout"')))} / ${sumBy('', rate(operations))}`,
          },
          unit: 'percentunit',
          traces: { name: 'lease.renew', attributes: { outcome: 'error' } },
        },
        {
          title: 'Ownership that moved out of order',
          good: '0. Takeovers come with a pod that died; losses and refused writes come with a pod that stood still or a store that lost data.',
          queries: {
            'taken over': sumBy('', increase('signals_lease_takeovers_total')),
            'lost or expired': sumBy('', happened('signals_lease_hold_duration_seconds_count', 'end_reason=~"lost|expired"')),
            'stale writes refused': sumBy('', increase('signals_lease_fence_rejections_total')),
          },
          traces: { name: 'thread.run', attributes: { end_reason: 'lease_lost' } },
        },
        {
          title: 'Signals that were given again, or given up',
          good: '0. Given again: a run was cut short. Given up: a signal ended every run that it was given to.',
          queries: {
            'given again': sumBy('', increase('signals_stream_redeliveries_total')),
            'given up': sumBy('', increase('signals_stream_dead_letters_total')),
          },
        },
      ],
    },
  ],
};
