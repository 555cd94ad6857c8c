/** The process and what it runs on. */

import type { BoardSpec } from '../dashboard.ts';
import { increase, quantile, rate, series, sumBy } from '../queries.ts';

const delay = 'nodejs_eventloop_delay_p99_seconds';

/** Metrics of the cluster know no `job` of ours: they are narrowed to our pods by what our pods say. */
function ofOurPods(expression: string): string {
  return `${expression} and on (namespace, pod) ${series('signals_lease_ttl_seconds')}`;
}

const container = 'cluster=~"$cluster", namespace=~"$namespace", pod=~"$pod", container!=""';

export const runtime: BoardSpec = {
  uid: 'signals-runtime',
  title: 'Runtime',
  description: 'The process and what it runs on: event loop, store as the pods see it, scrapes, and what the cluster knows of the containers.',
  rows: [
    {
      title: 'Process',
      panels: [
        {
          title: 'Event loop delay, 99 %',
          what: 'By how much timers were late, in each window of ten seconds.',
          good: 'below 50 ms. Agents that compute instead of waiting show here first.',
          queries: { '{{pod}}': `max by (pod) (${series(delay)})` },
          unit: 's',
          limits: { warn: 0.1, bad: 0.5 },
        },
        {
          title: 'Event loop delay, as a share of the renew interval',
          good: 'below 5 %. From 100 % on renewals come a whole interval late.',
          queries: { '{{pod}}': `max by (pod) (${series(delay)} / ${series('signals_lease_renew_interval_seconds')})` },
          unit: 'percentunit',
          limits: { warn: 0.05, bad: 0.5 },
        },
        {
          title: 'CPU of the process',
          what: 'Cores in use, by mode. JavaScript runs on one; more than 1 is the garbage collector and native threads.',
          good: 'below 0.7: at 1 the event loop has no time left. Much of `system`: many small reads and writes.',
          queries: { '{{pod}} {{cpu_mode}}': sumBy('pod, cpu_mode', rate('process_cpu_time_seconds_total')) },
        },
        {
          title: 'Memory of the process',
          what: 'Physical memory, as the process sees it.',
          good: 'flat over days, and well below the limit of the container.',
          queries: { '{{pod}}': `max by (pod) (${series('process_memory_usage_bytes')})` },
          unit: 'bytes',
        },
        {
          title: 'Age of the process',
          good: 'a straight line upwards. A drop is a restart: a drain in order, or a takeover for its threads.',
          queries: { '{{pod}}': `max by (pod) (${series('process_uptime_seconds')})` },
          unit: 's',
        },
      ],
    },
    {
      title: 'Store',
      panels: [
        {
          title: 'Connections to the store, by state',
          good: 'all of them `ready`. `reconnecting`: lost and being made again. `connecting` for long: never there, look at the address.',
          queries: { '{{pod}} {{role}} {{state}}': `${sumBy('pod, role, state', series('signals_redis_connection_status'))} > 0` },
        },
        {
          title: 'Connections that were lost and came back',
          good: '0. On all pods at one moment: the store was restarted or failed over. On one pod, again and again: its network.',
          queries: { '{{pod}} {{role}}': sumBy('pod, role', increase('signals_redis_reconnects_total')) },
        },
        {
          title: 'Answers of the store, as the pods see them: 99 %',
          what: 'Duration of lease operations by pod: round trip, time in the store, and time until the event loop came to it.',
          good: 'milliseconds, the same on all pods. One pod alone: its machine. All of them: the store.',
          queries: { '{{pod}}': quantile(0.99, 'signals_lease_operation_duration_seconds', 'pod') },
          unit: 's',
          traces: { name: 'lease.acquire' },
        },
        {
          title: 'Lease operations, by pod',
          good: 'spread over the pods.',
          queries: { '{{pod}}': sumBy('pod', rate('signals_lease_operation_duration_seconds_count')) },
          unit: 'ops',
        },
      ],
    },
    {
      title: 'Scrapes',
      panels: [
        {
          title: 'Pods that can be scraped',
          good: '1 for each. 0: the process is gone, or too busy to answer.',
          queries: { '{{pod}}': `min by (pod) (${series('up')})` },
        },
        {
          title: 'Series of each pod',
          what: 'No thread, run or message id is on a metric, so their number does not grow with traffic.',
          good: 'flat, a few hundred.',
          queries: { '{{pod}}': `max by (pod) (${series('scrape_samples_scraped')})` },
        },
      ],
    },
    {
      title: 'Containers (from the cluster; empty outside of Kubernetes)',
      panels: [
        {
          title: 'CPU',
          good: 'below the limit, with room for the pods of a node that goes.',
          queries: { '{{pod}}': ofOurPods(sumBy('namespace, pod', `rate(container_cpu_usage_seconds_total{${container}}[$__rate_interval])`)) },
          unit: 'short',
        },
        {
          title: 'Memory',
          good: 'flat over days, below the limit.',
          queries: { '{{pod}}': ofOurPods(sumBy('namespace, pod', `container_memory_working_set_bytes{${container}}`)) },
          unit: 'bytes',
        },
        {
          title: 'Restarts',
          good: '0. Each one was a takeover for the threads of that pod.',
          queries: { '{{pod}}': ofOurPods(sumBy('namespace, pod', `increase(kube_pod_container_status_restarts_total{${container}}[1h])`)) },
        },
      ],
    },
  ],
};
