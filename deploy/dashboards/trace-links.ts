/** Links from a point on a panel to the traces of that time, in Jaeger and in Tempo: whichever data source there is. */

import { DashboardLinkBuilder, DashboardLinkType } from '@grafana/grafana-foundation-sdk/dashboard';

export interface TraceSearch {
  /** Of the spans. */
  readonly name: string;
  /** Attributes of the spans, by their names there. Values of strings. */
  readonly attributes?: Readonly<Record<string, string>>;
}

export function traceLinks(search: TraceSearch) {
  return [
    link(`${search.name} in Jaeger`, 'jaeger', jaegerQuery(search)),
    link(`${search.name} in Tempo`, 'tempo', tempoQuery(search)),
  ];
}

function jaegerQuery({ name, attributes = {} }: TraceSearch): object {
  const tags = Object.entries(attributes).map(([key, value]) => `${key}=${value}`);
  return { queryType: 'search', service: '${service}', operation: name, ...(tags.length > 0 && { tags: tags.join(' ') }), limit: 20 };
}

function tempoQuery({ name, attributes = {} }: TraceSearch): object {
  const conditions = [
    'resource.service.name="${service}"',
    `name="${name}"`,
    ...Object.entries(attributes).map(([key, value]) => `span.${key}="${value}"`),
  ];
  return { queryType: 'traceql', query: `{${conditions.join(' && ')}}`, limit: 20 };
}

/** Explore, with the time range of the dashboard. */
function link(title: string, source: 'jaeger' | 'tempo', query: object) {
  const uid = `\${${source}}`;
  const pane = {
    datasource: uid,
    queries: [{ refId: 'A', datasource: { type: source, uid }, ...query }],
    range: { from: '${__from}', to: '${__to}' },
  };
  return new DashboardLinkBuilder(title)
    .type(DashboardLinkType.Link)
    .url(`/explore?schemaVersion=1&panes=${encoded({ traces: pane })}`)
    .targetBlank(true);
}

/** Encoded but for the variables, which Grafana replaces before anyone decodes. */
function encoded(value: object): string {
  return encodeURIComponent(JSON.stringify(value)).replaceAll(/%24%7B(\w+)%7D/g, '${$1}');
}
