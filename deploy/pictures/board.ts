/** A dashboard of ours, from what a Prometheus answers to its panels' queries. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { clock, escape, frame, ink, lines, stat, text } from './chart.ts';
import type { Box, Mark, Series, Span, Step } from './chart.ts';

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly fieldConfig?: { readonly defaults?: { readonly unit?: string; readonly thresholds?: { readonly steps?: readonly Step[] } } };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[];
}

interface Board {
  readonly title: string;
  readonly panels: readonly Panel[];
}

export interface Request {
  /** Of the file in `../dashboards/json`. */
  readonly board: string;
  /** Of the panels that are drawn; default: all. */
  readonly only?: readonly string[];
  readonly prometheus: string;
  readonly span: Span;
  readonly marks: readonly Mark[];
}

const columnWidth = 46;
const rowHeight = 26;
const gap = 8;
const head = 62;
const variables: Readonly<Record<string, string>> = { cluster: '.*', namespace: '.*', job: '.*', pod: '.*', __rate_interval: '15s' };

export async function drawBoard({ board: name, only, prometheus, span, marks }: Request): Promise<string> {
  const board = JSON.parse(readFileSync(join(import.meta.dirname, `../dashboards/json/signals-${name}.json`), 'utf8')) as Board;
  const panels = only === undefined ? board.panels : chosen(board.panels, only);
  const ask = new Answers(prometheus, span);
  const drawn = await Promise.all(panels.map(panel => drawPanel(panel, boxOf(panel), ask, span, marks)));
  const width = 24 * columnWidth + gap;
  const height = Math.max(...panels.map(panel => boxOf(panel).y + boxOf(panel).height)) + gap;
  const said = marks.map(({ at, text: what }) => `${clock(at)} ${what}`).join('   ·   ');
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" fill="${ink.text}">`,
    `<title>${escape(board.title)}</title><rect width="${width}" height="${height}" fill="${ink.page}"/>`,
    text(gap + 2, 22, board.title, `font-size="16" font-weight="600"`),
    text(width - gap, 22, 'drawn from Prometheus’s answers to the panels’ own queries, not by Grafana', `font-size="11" fill="${ink.faint}" text-anchor="end"`),
    text(gap + 2, 44, said, `font-size="11" fill="${ink.faint}"`),
    ...drawn,
    '</svg>\n',
  ].join('\n');
}

/** Two to a row. */
function chosen(panels: readonly Panel[], titles: readonly string[]): Panel[] {
  return titles.map((title, at) => {
    const panel = panels.find(one => one.title === title);
    if (!panel) throw new Error(`there is no panel "${title}"`);
    return { ...panel, gridPos: { x: (at % 2) * 12, y: Math.floor(at / 2) * 8, w: 12, h: 8 } };
  });
}

function boxOf({ gridPos: { x, y, w, h } }: Panel): Box {
  return { x: gap + x * columnWidth, y: head + y * rowHeight, width: w * columnWidth - gap, height: h * rowHeight - gap };
}

async function drawPanel(panel: Panel, box: Box, ask: Answers, span: Span, marks: readonly Mark[]): Promise<string> {
  const { type, title, targets = [] } = panel;
  const { unit = 'short', thresholds } = panel.fieldConfig?.defaults ?? {};
  if (type === 'row') return text(box.x + 2, box.y + 13, title, `font-size="13" font-weight="600"`);
  if (type === 'table') return drawTable(title, box, await ask.now(targets[0]?.expr ?? ''));
  const series = (await Promise.all(targets.map(({ expr, legendFormat = '' }) => ask.range(expr, legendFormat)))).flat();
  if (type === 'timeseries') return lines(box, title, unit, series, span, marks);
  if (type !== 'stat') throw new Error(`panels of type ${type} are not drawn`);
  const [, last] = series[0]?.points.findLast(([, value]) => Number.isFinite(value)) ?? [];
  return stat(box, title, last, unit, thresholds?.steps ?? []);
}

/** Labels that have a column, or say the same of all. */
const named = new Set(['__name__', 'alertname', 'alertstate', 'severity']);

function drawTable(title: string, box: Box, rows: readonly Row[]): string {
  if (rows.length === 0) return frame(box, title) + text(box.x + 12, box.y + 44, 'none', `font-size="12" fill="${ink.faint}"`);
  const shown = rows.slice(0, 4).map(({ metric }, at) => {
    const { alertname = '', severity = '' } = metric;
    const rest = Object.entries(metric).filter(([name]) => !named.has(name)).map(([name, value]) => `${name}=${value}`).join('  ');
    const y = box.y + 44 + at * 20;
    return text(box.x + 12, y, alertname, `font-size="12"`) + text(box.x + 280, y, severity, `font-size="12"`) + text(box.x + 370, y, rest, `font-size="11" fill="${ink.faint}"`);
  });
  return frame(box, title) + shown.join('');
}

interface Row {
  readonly metric: Readonly<Record<string, string>>;
}

/** A real Prometheus, asked as Grafana asks it. */
class Answers {
  readonly #url: string;
  readonly #span: Span;

  constructor(url: string, span: Span) {
    this.#url = url;
    this.#span = span;
  }

  async range(expression: string, legend: string): Promise<Series[]> {
    const { from, to } = this.#span;
    type Answer = Row & { readonly values: readonly (readonly [number, string])[] };
    const result = await this.#get<Answer>('query_range', expression, { start: String(from), end: String(to), step: '1' });
    const named = result.map(({ metric, values }): Series => ({
      name: legend.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? '').trim(),
      points: values.map(([at, value]) => [at, Number(value)]),
    }));
    // Of several, one that never happened is no line.
    if (named.length < 2) return named;
    return named.filter(({ points }) => points.some(([, value]) => value > 0)).sort((one, other) => one.name.localeCompare(other.name));
  }

  now(expression: string): Promise<Row[]> {
    return this.#get<Row>('query', expression, { time: String(this.#span.to) });
  }

  async #get<T>(path: string, expression: string, options: Record<string, string>): Promise<T[]> {
    const query = Object.entries(variables).reduce((done, [name, value]) => done.replaceAll(`$${name}`, value), expression);
    const response = await fetch(`${this.#url}/api/v1/${path}`, { method: 'POST', body: new URLSearchParams({ query, ...options }) });
    const body = (await response.json()) as { status: string; error?: string; data: { result: T[] } };
    if (body.status !== 'success') throw new Error(`${query}: ${body.error}`);
    return body.data.result;
  }
}

