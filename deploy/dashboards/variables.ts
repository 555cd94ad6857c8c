/** The variables that every dashboard has. */

import {
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  TextBoxVariableBuilder,
  VariableRefresh,
  VariableSort,
} from '@grafana/grafana-foundation-sdk/dashboard';

export const prometheusSource = { type: 'prometheus', uid: '${prometheus}' };

/** A metric that each pod has from its first scrape on. */
const anyPod = 'signals_lease_ttl_seconds';

/** What was chosen further left narrows what can be chosen further right. */
const filters = [
  { name: 'cluster', label: 'Cluster' },
  { name: 'namespace', label: 'Namespace' },
  { name: 'job', label: 'Job' },
  { name: 'pod', label: 'Pod' },
] as const;

export function variables() {
  return [
    new DatasourceVariableBuilder('prometheus').label('Metrics').type('prometheus'),
    new DatasourceVariableBuilder('jaeger').label('Traces (Jaeger)').type('jaeger'),
    new DatasourceVariableBuilder('tempo').label('Traces (Tempo)').type('tempo'),
    ...filters.map(({ name, label }, at) => filter(name, label, filters.slice(0, at).map(before => before.name))),
    new TextBoxVariableBuilder('service')
      .label('Service')
      .description('service.name of the traces that panels link to')
      .defaultValue('signals-runtime')
      .current({ text: 'signals-runtime', value: 'signals-runtime' }),
  ];
}

/** "All" is everything, also series that lack the label: few Prometheus servers set `cluster`. */
function filter(name: string, label: string, narrowedBy: readonly string[]) {
  const matchers = narrowedBy.map(other => `${other}=~"$${other}"`).join(', ');
  return new QueryVariableBuilder(name)
    .label(label)
    .datasource(prometheusSource)
    .query({ query: `label_values(${anyPod}{${matchers}}, ${name})`, refId: name })
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc)
    .multi(true)
    .includeAll(true)
    .allValue('.*')
    .current({ selected: true, text: ['All'], value: ['$__all'] });
}
