/** Every query of every panel, and the expression of every alert, asked of a real Prometheus that watched real pods through faults. */

import { afterAll, beforeAll, expect, test } from 'vitest';

import { generate } from '../../deploy/dashboards/generate.ts';
import { Story } from './dashboards/story.ts';

/** Panels that may be empty here, and why. All others have to show something above 0. */
const mayBeEmpty: Readonly<Record<string, string>> = {
  CPU: 'of the cluster\'s cAdvisor',
  Memory: 'of the cluster\'s cAdvisor',
  Restarts: 'of kube-state-metrics',
  'Trimmed unread, and not understood': 'nothing was trimmed, and nobody else wrote',
};

/** Alerts whose condition does not come true here, and why. All others have to. */
const staysQuiet: Readonly<Record<string, string>> = {
  SignalsNoPods: 'one pod at least was there all the time',
  SignalsLeaseHeadroomLow: 'the renew interval is an eighth of the TTL, and the outage shorter',
  SignalsTakeoverBurst: 'a dead pod owns fewer threads than make a burst',
  SignalsThreadsWaiting: 'the pods are full for seconds, not for a minute',
  SignalsHandoffGapLong: 'a sweep comes after a second at most',
  SignalsRedeliveries: 'how many there are hangs on how long the test takes',
  SignalsSettingsDiffer: 'both pods read the same directory',
  SignalsDrainAbandoned: 'the agents stop when they are told to',
  SignalsEventLoopDelay: 'hangs on what else this machine does',
  SignalsStreamReaderSilent: 'the streams were not cut off',
};

interface Target {
  expr: string;
  instant?: boolean;
}
interface Board {
  uid: string;
  panels: { title: string; type: string; targets?: Target[] }[];
  templating: { list: { type: string; name: string; query?: { query?: string } }[] };
}
type Result = { metric: Record<string, string>; values?: [number, string][]; value?: [number, string] }[];

const boards = Object.values(generate()).map(text => JSON.parse(text) as Board);
const panels = boards.flatMap(board => board.panels.flatMap(({ title, targets = [] }) => targets.map(target => ({ board: board.uid, title, target }))));

let story: Story;
let endedAt: number;

beforeAll(async () => {
  story = await Story.begin();
  await story.play();
  endedAt = Date.now() / 1000;
}, 600_000);

afterAll(() => story?.end());

async function get<T>(path: string): Promise<T> {
  const response = await fetch(`${story.prometheus.url}/api/v1/${path}`);
  const body = (await response.json()) as { status: string; error?: string; data: T };
  if (body.status !== 'success') throw new Error(`${decodeURIComponent(path)}: ${body.error}`);
  return body.data;
}

async function ask(expression: string, instant = false): Promise<Result> {
  const query = encodeURIComponent(expression);
  const time = instant ? `query?query=${query}&time=${endedAt}` : `query_range?query=${query}&start=${story.startedAt}&end=${endedAt}&step=2`;
  return (await get<{ result: Result }>(time)).result;
}

/** As Grafana puts the variables in. */
function filled(expression: string, chosen: Readonly<Record<string, string>>): string {
  const variables = { ...chosen, __rate_interval: '15s' };
  const text = Object.entries(variables).reduce((done, [name, value]) => done.replaceAll(`$${name}`, value), expression);
  expect(text, 'no variable is left').not.toContain('$');
  return text;
}

const everything = { cluster: '.*', namespace: '.*', job: '.*', pod: '.*' };
const ours = { cluster: 'test', namespace: 'signals', job: 'signals-runtime', pod: '(a|b)' };
const others = { ...ours, cluster: 'another' };

function isAboveZero(result: Result): boolean {
  return result.some(({ value, values = value ? [value] : [] }) => values.some(([, text]) => Number(text) > 0));
}

test('no query of a panel is an error, and those that traffic and faults should fill are filled', async () => {
  const empty: string[] = [];
  for (const { board, title, target } of panels) {
    for (const chosen of [everything, ours]) {
      const result = await ask(filled(target.expr, chosen), target.instant);
      if (!isAboveZero(result) && mayBeEmpty[title] === undefined) empty.push(`${board}: ${title}: ${filled(target.expr, chosen)}`);
    }
  }
  expect(empty).toEqual([]);
});

test('every exception is needed', async () => {
  for (const title of Object.keys(mayBeEmpty)) {
    const results = await Promise.all(panels.filter(panel => panel.title === title).map(({ target }) => ask(filled(target.expr, ours), target.instant)));
    expect(results.length, title).toBeGreaterThan(0);
    expect(results.some(isAboveZero), `${title} is filled after all`).toBe(false);
  }
});

test('a panel shows nothing of a cluster that was not chosen', async () => {
  for (const { board, title, target } of panels) {
    const result = await ask(filled(target.expr, others), target.instant);
    expect(isAboveZero(result), `${board}: ${title}`).toBe(false);
  }
});

test('the variables offer what there is', async () => {
  for (const board of boards) {
    for (const { name, query } of board.templating.list.filter(variable => variable.type === 'query')) {
      const [, selector = '', label] = /^label_values\((.*), (\w+)\)$/.exec(query?.query ?? '') ?? [];
      expect(label).toBe(name);
      const values = await get<string[]>(`label/${label}/values?match[]=${encodeURIComponent(filled(selector, everything))}`);
      const expected = { cluster: ['test'], namespace: ['signals'], job: ['signals-runtime'], pod: ['a', 'b'] }[name];
      expect(values).toEqual(expected);
    }
  }
});

test('no alert is an error, what each is about is there, and those that the faults should raise were raised', async () => {
  const { groups } = await get<{ groups: { rules: { name: string; query: string; health: string; lastError?: string }[] }[] }>('rules?type=alert');
  const alerts = groups.flatMap(group => group.rules);
  expect(alerts.length).toBeGreaterThan(12);
  for (const { name, query, health, lastError } of alerts) {
    expect(health, `${name}: ${lastError}`).toBe('ok');
    const raised = (await ask(query)).length > 0;
    if (staysQuiet[name] === undefined) expect(raised, name).toBe(true);
    const metrics = new Set(query.match(/\b(signals|nodejs|messaging)_\w+/g));
    for (const metric of metrics) {
      expect((await ask(`count(last_over_time(${metric}[30m]))`, true)).length, `${name}: ${metric}`).toBe(1);
    }
  }
  const names = alerts.map(alert => alert.name);
  for (const name of Object.keys(staysQuiet)) expect(names).toContain(name);
});

test('alerts carry what the dashboards filter by', async () => {
  const result = await ask('ALERTS{alertstate="firing", cluster="test", namespace="signals"}');
  const names = new Set(result.map(({ metric }) => metric['alertname']));
  for (const name of ['SignalsSettingsRefused', 'SignalsLeasesLost', 'SignalsStaleWritesRefused', 'SignalsDeadLetters']) expect(names).toContain(name);
});
