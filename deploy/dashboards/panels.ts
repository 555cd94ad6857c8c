/** Panels, all made the same way: a title, what good looks like, queries, and links to the traces behind them. */

import {
  BigValueColorMode,
  BigValueGraphMode,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  SortOrder,
  TooltipDisplayMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common';
import type { Builder } from '@grafana/grafana-foundation-sdk/cog';
import {
  FieldColorBuilder,
  FieldColorModeId,
  ThresholdsConfigBuilder,
  ThresholdsMode,
} from '@grafana/grafana-foundation-sdk/dashboard';
import type { Panel } from '@grafana/grafana-foundation-sdk/dashboard';
import { PanelBuilder as HeatmapBuilder } from '@grafana/grafana-foundation-sdk/heatmap';
import { DataqueryBuilder, PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TableBuilder } from '@grafana/grafana-foundation-sdk/table';
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';

import { traceLinks } from './trace-links.ts';
import type { TraceSearch } from './trace-links.ts';
import { prometheusSource } from './variables.ts';

export interface PanelSpec {
  readonly title: string;
  /** What is shown, where the title does not say it all. */
  readonly what?: string;
  /** What it looks like when all is well, and what to think of when it does not. */
  readonly good: string;
  readonly kind?: 'timeseries' | 'stat' | 'table' | 'heatmap';
  /** PromQL by legend. */
  readonly queries: Readonly<Record<string, string>>;
  /** Grafana's name of it. Default `short`. */
  readonly unit?: string;
  /** From where on it is yellow, and red; the other way round where `low` is bad. */
  readonly limits?: { readonly warn: number; readonly bad: number; readonly low?: boolean };
  /** Spans that tell the same story one by one. */
  readonly traces?: TraceSearch;
  /** Of 24. Default: 12, 4 for a stat. */
  readonly width?: number;
  readonly height?: number;
  /** What a stat shows when there is no answer. */
  readonly noValue?: string;
}

type AnyBuilder = TimeseriesBuilder | StatBuilder | TableBuilder | HeatmapBuilder;

export function panel(spec: PanelSpec, id: number): Builder<Panel> {
  const builder = builderOf(spec);
  const entries = Object.entries(spec.queries);
  builder
    .id(id)
    .title(spec.title)
    .description([spec.what, `Good: ${spec.good}`].filter(Boolean).join('\n\n'))
    .datasource(prometheusSource)
    .unit(spec.unit ?? 'short')
    .targets(entries.map(([legend, expr], at) => target(spec, legend, expr, String.fromCodePoint(65 + at))))
    .span(spec.width ?? (spec.kind === 'stat' ? 4 : 12))
    .height(spec.height ?? (spec.kind === 'stat' ? 4 : 8));
  if (spec.traces) builder.dataLinks(traceLinks(spec.traces));
  if (spec.limits) builder.thresholds(thresholds(spec.limits));
  return builder;
}

function builderOf(spec: PanelSpec): AnyBuilder {
  if (spec.kind === 'stat') return stat(spec);
  if (spec.kind === 'table') return new TableBuilder();
  if (spec.kind === 'heatmap') return new HeatmapBuilder().calculate(false);
  return timeseries();
}

function timeseries(): TimeseriesBuilder {
  return new TimeseriesBuilder()
    .min(0)
    .lineWidth(1)
    .fillOpacity(8)
    .legend(
      new VizLegendOptionsBuilder()
        .displayMode(LegendDisplayMode.List)
        .placement(LegendPlacement.Bottom)
        .showLegend(true)
        .calcs(['lastNotNull', 'max']),
    )
    .tooltip(new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi).sort(SortOrder.Descending));
}

function stat({ limits, noValue }: PanelSpec): StatBuilder {
  return new StatBuilder()
    .colorMode(limits ? BigValueColorMode.Value : BigValueColorMode.None)
    .graphMode(BigValueGraphMode.Area)
    .colorScheme(new FieldColorBuilder().mode(limits ? FieldColorModeId.Thresholds : FieldColorModeId.PaletteClassic))
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']).values(false))
    .noValue(noValue ?? 'no data');
}

function target({ kind }: PanelSpec, legend: string, expr: string, refId: string): DataqueryBuilder {
  const query = new DataqueryBuilder().datasource(prometheusSource).refId(refId).expr(expr).legendFormat(legend);
  if (kind === 'table') return query.instant().format(PromQueryFormat.Table);
  return kind === 'heatmap' ? query.range().format(PromQueryFormat.Heatmap) : query.range();
}

function thresholds({ warn, bad, low = false }: NonNullable<PanelSpec['limits']>): ThresholdsConfigBuilder {
  const steps = low
    ? [{ value: null, color: 'red' }, { value: bad, color: 'orange' }, { value: warn, color: 'green' }]
    : [{ value: null, color: 'green' }, { value: warn, color: 'orange' }, { value: bad, color: 'red' }];
  return new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps);
}
