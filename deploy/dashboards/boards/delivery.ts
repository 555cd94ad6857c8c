/** What happens to signals, runs, and the events of the streams backend. */

import type { BoardSpec } from '../dashboard.ts';
import { increase, orZero, quantile, rate, series, sumBy } from '../queries.ts';

const runs = 'signals_run_duration_seconds';
/** By name: `send`, `ack`, `nack`. */
const operation = 'messaging_client_operation_duration_seconds';
const processing = 'messaging_process_duration_seconds';

export const delivery: BoardSpec = {
  uid: 'signals-delivery',
  title: 'Delivery',
  description: 'What happens to signals from the request to the end of a run, and to events of the streams backend.',
  rows: [
    {
      title: 'Signals',
      panels: [
        {
          title: 'Routed, by decision',
          good: '`wake` and `deliver`. `duplicate` is a client that sent again, and was right to.',
          queries: { '{{decision}}': sumBy('decision', rate('signals_route_decisions_total')) },
          unit: 'ops',
          traces: { name: 'signal.route' },
        },
        {
          title: 'Not accepted, share',
          what: 'Signals that were refused, or could not be routed, of all.',
          good: '0. `refused`: an inbox is full or the pod drains, and the client was told to come back. `error`: the store.',
          queries: Object.fromEntries(
            ['refused', 'error'].map(decision => [
              decision,
              `${orZero(sumBy('', rate('signals_route_decisions_total', `decision="${decision}"`)))} / ${sumBy('', rate('signals_route_decisions_total'))}`,
            ]),
          ),
          unit: 'percentunit',
          traces: { name: 'signal.route', attributes: { decision: 'refused' } },
        },
        {
          title: 'Threads that wait for a pod',
          what: 'Threads with waiting signals and no owner. Every pod counts the same store; one that can\'t is missing here.',
          good: '0, or back at 0 soon. Staying up: the pods are full (MAX_RUNS), or can\'t take leases.',
          queries: { '{{pod}}': sumBy('pod', series('signals_inbox_waiting')) },
        },
        {
          title: 'Longest wait for a pod',
          what: 'How long the first of those threads has been without an owner. Absent while there is none.',
          good: 'about a sweep interval. A straight line upwards: nobody comes for that thread.',
          queries: { '{{pod}}': sumBy('pod', series('signals_inbox_oldest_age_seconds')) },
          unit: 's',
        },
        {
          title: 'Given again',
          good: '0. After a crash as many as the dead pod had taken and not settled.',
          queries: { '{{pod}}': sumBy('pod', increase('signals_stream_redeliveries_total')) },
          traces: { name: 'thread.run' },
        },
        {
          title: 'Given up: dead letters',
          good: '0. Each is a signal that ended every run it was given to. GET /v1/dead-letters lists the threads.',
          queries: { '{{pod}}': sumBy('pod', increase('signals_stream_dead_letters_total')) },
        },
      ],
    },
    {
      title: 'Runs',
      panels: [
        {
          title: 'Runs on, by pod',
          good: 'spread over the pods, below MAX_RUNS.',
          queries: { '{{pod}}': sumBy('pod', series('signals_run_active')) },
          traces: { name: 'thread.run' },
        },
        {
          title: 'Duration of runs, by how they ended: 95 %',
          good: 'what your agents take. A `failed` of a few milliseconds is an agent that does not start.',
          queries: { '{{end_reason}}': quantile(0.95, runs, 'end_reason') },
          unit: 's',
          traces: { name: 'thread.run' },
        },
        {
          title: 'Runs that failed',
          what: 'The agent threw. Its signals count as handled, and its readers were told.',
          good: '0, or what you know of your agents.',
          queries: { '{{pod}}': sumBy('pod', rate(`${runs}_count`, 'end_reason="failed"')) },
          unit: 'ops',
          traces: { name: 'thread.run', attributes: { end_reason: 'failed' } },
        },
      ],
    },
    {
      title: 'Events (streams backend; empty where nothing uses it as a PubSub)',
      panels: [
        {
          title: 'Sent and consumed',
          good: 'both follow each other; a fan-out topic consumes more than it is sent.',
          queries: {
            sent: sumBy('', rate('messaging_client_sent_messages_total')),
            consumed: sumBy('', rate('messaging_client_consumed_messages_total')),
          },
          unit: 'ops',
        },
        {
          title: 'Duration of sending, handling and settling, 99 %',
          good: '`send`, `ack`, `nack`: milliseconds. Handling: what your handlers take.',
          queries: { '{{messaging_operation_name}}': quantile(0.99, operation, 'messaging_operation_name'), handling: quantile(0.99, processing) },
          unit: 's',
        },
        {
          title: 'Sends, handlers and acks that failed',
          good: 'nothing. A handler that fails is given its event again, and so is one whose ack fails.',
          queries: {
            '{{messaging_operation_name}} {{error_type}}': sumBy('messaging_operation_name, error_type', rate(`${operation}_count`, 'error_type!=""')),
            'handling {{error_type}}': sumBy('error_type', rate(`${processing}_count`, 'error_type!=""')),
          },
          unit: 'ops',
        },
        {
          title: 'Silence of readers',
          what: 'Time since the store last answered each reader.',
          good: 'a few seconds, however quiet it is. Growing: this pod hears nothing.',
          queries: { '{{pod}} {{signals_redis_node}}': `max by (pod, signals_redis_node) (${series('signals_stream_reader_progress_age_seconds')})` },
          unit: 's',
          limits: { warn: 10, bad: 30 },
        },
        {
          title: 'Trimmed unread, and not understood',
          good: 'nothing. Trimmed: a group is slower than its stream is long. Not understood: somebody else writes there.',
          queries: {
            trimmed: sumBy('', increase('signals_stream_trimmed_total')),
            'not understood': sumBy('', increase('signals_stream_undecodable_total')),
          },
        },
      ],
    },
  ],
};
