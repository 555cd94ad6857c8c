/** A dashboard from rows of panels: variables, links to the others, and ids that stay as long as the order does. */

import { DashboardBuilder, DashboardCursorSync, DashboardLinkBuilder, DashboardLinkType, RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import type { Dashboard } from '@grafana/grafana-foundation-sdk/dashboard';

import { panel } from './panels.ts';
import type { PanelSpec } from './panels.ts';
import { variables } from './variables.ts';

export interface BoardSpec {
  /** Also the name of its file. */
  readonly uid: string;
  readonly title: string;
  readonly description: string;
  readonly rows: readonly { readonly title: string; readonly panels: readonly PanelSpec[] }[];
}

const tag = 'signals-runtime';

export function dashboard({ uid, title, description, rows }: BoardSpec): Dashboard {
  const builder = new DashboardBuilder(`Signals / ${title}`)
    .uid(uid)
    .description(description)
    .tags([tag])
    .time({ from: 'now-1h', to: 'now' })
    .refresh('30s')
    .timezone('browser')
    .tooltip(DashboardCursorSync.Crosshair)
    .variables(variables())
    .link(
      new DashboardLinkBuilder('Signals')
        .type(DashboardLinkType.Dashboards)
        .tags([tag])
        .includeVars(true)
        .keepTime(true),
    );
  let id = 1;
  for (const row of rows) {
    builder.withRow(new RowBuilder(row.title).id(id++));
    for (const spec of row.panels) builder.withPanel(panel(spec, id++));
  }
  return builder.build();
}
