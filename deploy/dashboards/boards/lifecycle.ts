/** Starts, drains and settings. */

import type { BoardSpec } from '../dashboard.ts';
import { increase, series, sumBy } from '../queries.ts';

const ttl = 'signals_lease_ttl_seconds';

/** Also of a process that has gone since: a drain is over a moment before it. */
const ofLast = (part: string) => `last_over_time(${series(`signals_drain_duration_seconds_${part}`)}[$__rate_interval])`;

export const lifecycle: BoardSpec = {
  uid: 'signals-lifecycle',
  title: 'Lifecycle',
  description: 'Starts, drains and settings. A drain ends with the process: a scrape sees its last moments only if DRAIN_DELAY_MS or the runs make it long enough; OTLP sends them always.',
  rows: [
    {
      title: 'Pods',
      panels: [
        {
          title: 'Pods, by version',
          good: 'one version, two while a deploy goes on.',
          queries: { '{{service_version}}': `count by (service_version) (${series('target_info')})` },
        },
        {
          title: 'Lives of each pod in the last hour',
          what: 'An instance is one life of one process: a container that was restarted is another.',
          good: '1 for each pod. More: it crashed, was killed for memory, or failed its probes.',
          queries: {
            '{{pod}}': `count by (pod) (count by (pod, service_instance_id) (last_over_time(${series('target_info')}[1h])))`,
          },
          limits: { warn: 2, bad: 4 },
        },
        {
          title: 'Instances',
          kind: 'table',
          good: 'the instance names that owners of leases begin with.',
          queries: { instances: `group by (cluster, namespace, pod, service_instance_id, service_version) (${series('target_info')})` },
          width: 24,
          height: 6,
        },
      ],
    },
    {
      title: 'Drains',
      panels: [
        {
          title: 'Leases given up by drains',
          good: '`transferred` (a peer goes on at once) and `released`. `abandoned`: an agent did not stop, its lease runs out by itself.',
          queries: { '{{outcome}}': sumBy('outcome', increase('signals_drain_leases_total')) },
          traces: { name: 'runtime.drain' },
        },
        {
          title: 'Duration of drains',
          what: 'Each process drains once, at its end.',
          good: 'well below the drain timeout. At the timeout: runs are cut short, and run again elsewhere.',
          queries: { '{{pod}}': `max by (pod) (${ofLast('sum')} / ${ofLast('count')})` },
          unit: 's',
          traces: { name: 'runtime.drain' },
        },
      ],
    },
    {
      title: 'Settings',
      panels: [
        {
          title: 'Settings read again',
          good: '`unchanged` most of the time, `applied` when you edited something, never `rejected`: GET /v1/settings says why.',
          queries: { '{{outcome}}': sumBy('outcome', increase('signals_config_reloads_total')) },
          traces: { name: 'config.reload' },
        },
        {
          title: 'Trouble with following settings',
          what: 'By reason. `missed`: a change that no watch told of, found by reading again. `expired` and `silent`: a watch that was begun anew.',
          good: '0 but for an `expired` or `silent` now and then. `failed` that goes on: this pod does not hear of edits.',
          queries: { '{{pod}} {{reason}}': sumBy('pod, reason', increase('signals_config_source_troubles_total')) },
          traces: { name: 'config.reload' },
        },
        {
          title: 'Lease TTL in effect',
          good: 'the same on all pods within a minute of an edit.',
          queries: { '{{pod}}': `max by (pod) (${series(ttl)})` },
          unit: 's',
          traces: { name: 'config.reload', attributes: { outcome: 'applied' } },
        },
        {
          title: 'Renew interval in effect',
          good: 'a third of the TTL unless you chose otherwise, never above half.',
          queries: { '{{pod}}': `max by (pod) (${series('signals_lease_renew_interval_seconds')})` },
          unit: 's',
        },
        {
          title: 'Different TTLs in effect',
          kind: 'stat',
          width: 12,
          height: 8,
          good: '1. More for longer than a minute: a pod does not follow its ConfigMap, or refused it.',
          queries: { values: `count(count_values("ttl", ${series(ttl)}))` },
          limits: { warn: 2, bad: 3 },
        },
      ],
    },
  ],
};
