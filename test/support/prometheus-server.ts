/** Prometheus' own tools: the judge of our text format, and a real server that scrapes it. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { freePort } from './redis-server.ts';
import { until } from './until.ts';

/** What `promtool check metrics` has to say about a text; empty when it is content. */
export async function checkMetrics(text: string): Promise<string> {
  const child = spawn('promtool', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
  child.on('error', error => {
    throw new Error(`promtool could not be started (Debian: prometheus): ${error.message}`);
  });
  const said: Buffer[] = [];
  child.stdout.on('data', (part: Buffer) => said.push(part));
  child.stderr.on('data', (part: Buffer) => said.push(part));
  child.stdin.end(text);
  const [code] = (await once(child, 'close')) as [number | null];
  const output = Buffer.concat(said).toString('utf8').trim();
  return code === 0 ? output : `exit ${code}: ${output}`;
}

export interface PrometheusServer {
  readonly url: string;
  /** Result of an instant query. */
  query(expression: string): Promise<{ metric: Record<string, string>; value: number }[]>;
  /** Metric names that it has seen, its own of the scrape aside. */
  metricNames(): Promise<string[]>;
  /** Type, unit and help as it understood them. */
  metadata(): Promise<Record<string, { type: string; help: string }>>;
  stop(): Promise<void>;
}

/** `host:port`, with labels of its own where one names it. */
export type ScrapeTarget = string | { readonly target: string; readonly labels: Readonly<Record<string, string>> };

/** Scrapes `targets` and evaluates rules every second. */
export async function startPrometheus(targets: readonly ScrapeTarget[], ruleFiles: readonly string[] = []): Promise<PrometheusServer> {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), 'signals-prometheus-'));
  const file = join(directory, 'prometheus.json'); // JSON is YAML
  const configs = targets.map(to => (typeof to === 'string' ? { targets: [to] } : { targets: [to.target], labels: to.labels }));
  const scrape = { job_name: 'signals-runtime', scrape_interval: '1s', static_configs: configs };
  const global = { evaluation_interval: '1s' };
  writeFileSync(file, JSON.stringify({ global, rule_files: ruleFiles, scrape_configs: [scrape] }));
  const child = spawn(
    'prometheus',
    [`--config.file=${file}`, `--storage.tsdb.path=${directory}/data`, `--web.listen-address=127.0.0.1:${port}`, '--log.level=error'],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  child.on('error', error => {
    throw new Error(`prometheus could not be started (Debian: prometheus): ${error.message}`);
  });
  const url = `http://127.0.0.1:${port}`;
  await until('prometheus is ready', () => {
    if (child.exitCode !== null) throw new Error(`prometheus exited with ${child.exitCode}`);
    return fetch(`${url}/-/ready`).then(response => response.ok, () => false);
  });
  const get = async <T>(path: string): Promise<T> => {
    const response = await fetch(`${url}/api/v1/${path}`);
    const body = (await response.json()) as { status: string; error?: string; data: T };
    if (body.status !== 'success') throw new Error(`${path}: ${body.error}`);
    return body.data;
  };
  return {
    url,
    async query(expression) {
      type Sample = { metric: Record<string, string>; value: [number, string] };
      const { result } = await get<{ result: Sample[] }>(`query?query=${encodeURIComponent(expression)}`);
      return result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }));
    },
    async metricNames() {
      const names = await get<string[]>('label/__name__/values');
      return names.filter(name => name !== 'up' && !name.startsWith('scrape_'));
    },
    async metadata() {
      const entries = await get<Record<string, [{ type: string; help: string }]>>('metadata');
      return Object.fromEntries(Object.entries(entries).map(([name, [first]]) => [name, first]));
    },
    async stop() {
      if (child.exitCode === null) {
        const gone = once(child, 'exit');
        child.kill('SIGKILL');
        await gone;
      }
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
