/** Who owns threads, how safely, and why ownership moved. */

import type { BoardSpec } from '../dashboard.ts';
import { happened, increase, quantile, quantileOfRare, rate, series, sumBy } from '../queries.ts';

const operations = 'signals_lease_operation_duration_seconds';
const holds = 'signals_lease_hold_duration_seconds';
const headroom = 'signals_lease_renewal_headroom';

export const ownership: BoardSpec = {
  uid: 'signals-ownership',
  title: 'Ownership',
  description: 'Leases: who owns threads, how safely, and why ownership moved. Who owns one thread: GET /v1/threads/<resource>/<thread>.',
  rows: [
    {
      title: 'Held',
      panels: [
        {
          title: 'Leases held, by pod',
          good: 'spread over the pods. One pod with most of them gets most of the signals: look at its balancing.',
          queries: { '{{pod}}': sumBy('pod', series('signals_lease_active')) },
          traces: { name: 'lease.acquire' },
        },
        {
          title: 'How long leases were held',
          good: 'as long as runs take: a lease is given up at the end of a run unless more is waiting. The buckets end at 82 s.',
          queries: { 'half of them': quantile(0.5, holds), '99 %': quantile(0.99, holds) },
          unit: 's',
          traces: { name: 'lease.release' },
        },
        {
          title: 'Why holding ended',
          good: '`released` and `transferred`. `expired`: not renewed in time. `lost`: the store said it is another\'s.',
          queries: { '{{end_reason}}': sumBy('end_reason', rate(`${holds}_count`)) },
          unit: 'ops',
          traces: { name: 'lease.release' },
        },
        {
          title: 'Asked for, and held by another',
          good: 'little. Many: signals for busy threads reach other pods than their owners, which is legal and costs a round trip.',
          queries: { '{{pod}}': sumBy('pod', rate(`${operations}_count`, 'operation="acquire", outcome="held"')) },
          unit: 'ops',
          traces: { name: 'lease.acquire', attributes: { outcome: 'held' } },
        },
      ],
    },
    {
      title: 'Safe',
      panels: [
        {
          title: 'Renewal headroom',
          what: 'Share of the TTL that was left when a renewal was confirmed, and what the settings let one expect.',
          good: 'close to the expected line. Falling: the store is slow, or the event loop is; at 0 owners stop themselves.',
          queries: {
            'half of them': quantile(0.5, headroom),
            'lowest 10 %': quantile(0.1, headroom),
            'lowest 1 %': quantile(0.01, headroom),
            expected: `1 - max(${series('signals_lease_renew_interval_seconds')} / ${series('signals_lease_ttl_seconds')})`,
          },
          unit: 'percentunit',
          traces: { name: 'lease.renew' },
        },
        {
          title: 'Renewal headroom, all renewals',
          good: 'one narrow band. A tail downwards is the warning before leases expire.',
          kind: 'heatmap',
          queries: { '{{le}}': sumBy('le', increase(`${headroom}_bucket`)) },
          traces: { name: 'lease.renew' },
        },
        {
          title: 'Duration of lease operations, 99 %',
          good: 'milliseconds, and far below a tenth of the TTL.',
          queries: { '{{operation}}': quantile(0.99, operations, 'operation') },
          unit: 's',
          traces: { name: 'lease.acquire' },
        },
        {
          title: 'Lease operations',
          good: 'as many releases and transfers as acquires. `already_owned` is a repeated request.',
          queries: { '{{operation}} {{outcome}}': sumBy('operation, outcome', rate(`${operations}_count`)) },
          unit: 'ops',
          traces: { name: 'lease.acquire' },
        },
        {
          title: 'Lease operations that failed, by error',
          good: 'nothing. `SIG_STORE_UNAVAILABLE`: the store, or the way to it. `SIG_LEASE_*`: the lease was another\'s by then.',
          queries: {
            '{{pod}} {{operation}} {{outcome}} {{error_type}}': sumBy(
              'pod, operation, outcome, error_type',
              rate(`${operations}_count`, 'error_type!=""'),
            ),
          },
          unit: 'ops',
          traces: { name: 'lease.renew', attributes: { outcome: 'error' } },
        },
      ],
    },
    {
      title: 'Moved',
      panels: [
        {
          title: 'Held to a bad end',
          good: 'nothing. `expired` and `lost` stop a run; `abandoned` is an agent that did not stop, or one that this pod does not know.',
          queries: { '{{pod}} {{end_reason}}': sumBy('pod, end_reason', happened(`${holds}_count`, 'end_reason=~"lost|expired|abandoned"')) },
          traces: { name: 'lease.renew', attributes: { outcome: 'lost' } },
        },
        {
          title: 'Taken over, by pod',
          what: 'Threads that came back after their owner had gone. The pod is the one that took them.',
          good: '0. As many as the dead pod owned after a crash, then 0 again.',
          queries: { '{{pod}}': sumBy('pod', increase('signals_lease_takeovers_total')) },
          traces: { name: 'lease.acquire', attributes: { outcome: 'acquired' } },
        },
        {
          title: 'Time without an owner',
          what: 'How long signals waited without an owner until a pod took their thread, by the clock of the store. After a crash up to one sweep interval too much. Not measured by the embedded backend.',
          good: '0 when a drain hands over; after a crash about one sweep interval. The buckets end at 10 s.',
          queries: {
            'half of them': quantileOfRare(0.5, 'signals_lease_handoff_gap_seconds'),
            '99 %': quantileOfRare(0.99, 'signals_lease_handoff_gap_seconds'),
          },
          unit: 's',
          traces: { name: 'lease.acquire' },
        },
        {
          title: 'Stale writes refused',
          what: 'Writes of an owner whose lease was no longer the current one. The store refused them: nothing was harmed.',
          good: '0. Some after a pod stood still; many on one pod: its clock or its machine.',
          queries: { '{{pod}}': sumBy('pod', increase('signals_lease_fence_rejections_total')) },
          traces: { name: 'thread.run', attributes: { end_reason: 'lease_lost' } },
        },
      ],
    },
  ],
};
