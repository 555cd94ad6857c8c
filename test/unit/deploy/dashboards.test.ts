import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { directory, generate } from '../../../deploy/dashboards/generate.ts';
import { keys, spanKeys, spanNames } from '../../../src/telemetry/names.ts';

interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  targets?: { expr: string; datasource: { uid: string } }[];
  fieldConfig?: { defaults: { links?: { title: string; url: string }[] } };
  gridPos: { x: number; y: number; w: number; h: number };
}

interface Board {
  uid: string;
  title: string;
  panels: Panel[];
  templating: { list: { name: string; type: string; allValue?: string }[] };
}

const boards = Object.values(generate()).map(text => JSON.parse(text) as Board);
const panels = boards.flatMap(board => board.panels.filter(panel => panel.type !== 'row').map(panel => ({ board: board.uid, ...panel })));

test('the dashboards that are checked in are what the code writes (npm run dashboards)', () => {
  const written = generate();
  expect(readdirSync(directory).sort()).toEqual(Object.keys(written).sort());
  for (const [name, text] of Object.entries(written)) expect(readFileSync(join(directory, name), 'utf8'), name).toBe(text);
});

test('there is one for each question: overview, ownership, delivery, lifecycle, runtime', () => {
  expect(boards.map(board => board.title.replace('Signals / ', '').toLowerCase())).toEqual([
    'overview', 'ownership', 'delivery', 'lifecycle', 'runtime',
  ]);
});

test('each panel says what good looks like, and asks the data source that was chosen', () => {
  expect(panels.length).toBeGreaterThan(40);
  for (const { board, title, description, targets, gridPos } of panels) {
    const where = `${board}: ${title}`;
    expect(description, where).toMatch(/(^|\n\n)Good: .{10,}\.$/s);
    expect(targets?.length, where).toBeGreaterThan(0);
    for (const { expr, datasource } of targets ?? []) {
      expect(datasource.uid, where).toBe('${prometheus}');
      // One that ignores the choice shows the neighbour's cluster.
      expect(expr, where).toContain('cluster=~"$cluster"');
      expect(expr, where).toContain('namespace=~"$namespace"');
    }
    expect(gridPos.x + gridPos.w, `${where} is on the grid`).toBeLessThanOrEqual(24);
  }
});

test('panels can be told apart', () => {
  for (const board of boards) {
    const ids = board.panels.map(panel => panel.id);
    const titles = board.panels.map(panel => panel.title);
    expect(new Set(ids).size, board.uid).toBe(ids.length);
    expect(new Set(titles).size, board.uid).toBe(titles.length);
  }
});

test('no panel covers another', () => {
  for (const board of boards) {
    const cells = board.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
    );
    expect(new Set(cells).size, board.uid).toBe(cells.length);
  }
});

test('each dashboard lets one choose data sources, cluster, namespace, job and pod; all is also what has no such label', () => {
  for (const board of boards) {
    const { list } = board.templating;
    expect(list.map(variable => variable.name)).toEqual([
      'prometheus', 'jaeger', 'tempo', 'cluster', 'namespace', 'job', 'pod', 'service',
    ]);
    for (const { allValue } of list.filter(variable => variable.type === 'query')) expect(allValue).toBe('.*');
  }
});

test('links from panels lead to spans and attributes that there are', () => {
  const links = panels.flatMap(panel => panel.fieldConfig?.defaults.links ?? []);
  const jaeger = links.filter(link => link.title.endsWith('in Jaeger')).map(queryOf);
  const tempo = links.filter(link => link.title.endsWith('in Tempo')).map(queryOf);
  expect(jaeger.length).toBeGreaterThan(20);
  expect(tempo.length).toBe(jaeger.length);
  const attributes: string[] = [...Object.values(keys), ...Object.values(spanKeys)];
  for (const { source, query } of jaeger) {
    expect(source).toBe('${jaeger}');
    expect(query['service']).toBe('${service}');
    expect(Object.values(spanNames)).toContain(query['operation']);
    const tags = ((query['tags'] as string | undefined) ?? '').split(' ').filter(Boolean);
    for (const tag of tags) expect(attributes).toContain(tag.split('=')[0]);
  }
  for (const { source, query } of tempo) {
    expect(source).toBe('${tempo}');
    expect(query['query']).toMatch(/^\{resource\.service\.name="\$\{service\}" && name="[\w.]+"( && span\.[\w.]+="\w+")*\}$/);
  }
});

function queryOf({ url }: { url: string }): { source: string; query: Record<string, unknown> } {
  // Variables have to be there as they are: Grafana replaces them before it decodes.
  expect(url).toMatch(/\$\{(jaeger|tempo)\}/);
  const panes = new URL(url, 'http://grafana').searchParams.get('panes') ?? '';
  const { traces } = JSON.parse(panes) as { traces: { datasource: string; queries: [Record<string, unknown>] } };
  return { source: traces.datasource, query: traces.queries[0] };
}
