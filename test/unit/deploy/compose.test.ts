/** Docker is in no test: what can be said of the files without it. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { loadYaml } from '@kubernetes/client-node';
import { expect, test } from 'vitest';

/** Docker knows `<<`; YAML 1.2, and so this parser, does not. */
function merged<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(merged) as T;
  const { '<<': base, ...own } = value as Record<string, unknown>;
  return Object.fromEntries(Object.entries({ ...(base === undefined ? {} : merged(base)), ...own }).map(([key, item]) => [key, merged(item)])) as T;
}

const directory = join(import.meta.dirname, '../../../deploy/compose');
const read = (file: string): unknown => loadYaml(readFileSync(join(directory, file), 'utf8'));

interface Service {
  image?: string;
  build?: { context: string };
  depends_on?: string[];
  environment?: Record<string, string>;
  volumes?: string[];
  ports?: string[];
  command?: string[];
}
const { services } = merged(read('compose.yaml') as { services: Record<string, Service> });
const all = Object.entries(services);

test('each service has one source, pinned, and what it mounts and waits for is there', () => {
  expect(Object.keys(services)).toEqual(['redis', 'runtime-a', 'runtime-b', 'traffic', 'collector', 'jaeger', 'prometheus', 'grafana']);
  for (const [name, { image, build, depends_on: needs = [], volumes = [] }] of all) {
    expect([image, build].filter(Boolean).length, name).toBe(1);
    if (image !== undefined) expect(image, name).toMatch(/^[\w./-]+:v?\d+[\w.-]*$/);
    for (const other of needs) expect(services, `${name} needs ${other}`).toHaveProperty([other]);
    for (const volume of volumes) {
      const [from = '', to, mode] = volume.split(':');
      expect(existsSync(join(directory, from)), `${name} mounts ${from}`).toBe(true);
      expect(to, name).toMatch(/^\//);
      expect(mode, name).toBe('ro');
    }
  }
});

test('nothing listens beyond the loopback, and no two on one port', () => {
  const ports = all.flatMap(([, service]) => service.ports ?? []);
  for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
  expect(new Set(ports.map(port => port.split(':')[1])).size).toBe(ports.length);
});

test('the runtimes differ in their name only, and their traces go to the collector', () => {
  const { INSTANCE_NAME: a, ...ofA } = services['runtime-a']!.environment!;
  const { INSTANCE_NAME: b, ...ofB } = services['runtime-b']!.environment!;
  expect([a, b]).toEqual(['runtime-a', 'runtime-b']);
  expect(ofA).toEqual(ofB);
  const endpoint = new URL(ofA['OTEL_EXPORTER_OTLP_ENDPOINT']!);
  expect(services).toHaveProperty([endpoint.hostname]);
  const collector = read('collector.yaml') as { receivers: { otlp: { protocols: { http: { endpoint: string } } } } };
  expect(collector.receivers.otlp.protocols.http.endpoint).toMatch(new RegExp(`:${endpoint.port}$`));
});

test('the pipelines of the collector use what it has, all of it', () => {
  type Part = 'receivers' | 'processors' | 'exporters';
  const config = read('collector.yaml') as Record<Part, Record<string, unknown>> & { service: { pipelines: Record<string, Record<Part, string[]>> } };
  for (const part of ['receivers', 'processors', 'exporters'] as const) {
    const used = Object.values(config.service.pipelines).flatMap(pipeline => pipeline[part]);
    expect(used.toSorted()).toEqual(Object.keys(config[part]).toSorted());
  }
  const exporter = config.exporters['otlp/jaeger'] as { endpoint: string };
  expect(services).toHaveProperty([exporter.endpoint.split(':')[0]!]);
});

test('Prometheus scrapes the runtimes under their names, and has the rules where it looks for them', () => {
  const config = read('prometheus.yaml') as {
    rule_files: string[];
    scrape_configs: { static_configs: { targets: string[]; labels: Record<string, string> }[] }[];
  };
  const scraped = config.scrape_configs.flatMap(scrape => scrape.static_configs);
  expect(scraped.map(({ labels }) => labels['pod'])).toEqual(['runtime-a', 'runtime-b']);
  for (const { targets, labels } of scraped) expect(targets).toEqual([`${labels['pod']}:9464`]);
  const mounted = services['prometheus']!.volumes!.map(volume => volume.split(':')[1]);
  for (const file of config.rule_files) expect(mounted).toContain(`/etc/prometheus/${file}`);
});

test('Grafana finds its sources and its dashboards', () => {
  const { datasources } = read('grafana/provisioning/datasources/sources.yaml') as { datasources: { uid: string; type: string; url: string }[] };
  expect(datasources.map(source => source.type)).toEqual(['prometheus', 'jaeger']);
  for (const { url } of datasources) expect(services).toHaveProperty([new URL(url).hostname]);
  const { providers } = read('grafana/provisioning/dashboards/signals.yaml') as { providers: { options: { path: string } }[] };
  const mounted = services['grafana']!.volumes!.map(volume => volume.split(':')[1]);
  for (const { options } of providers) expect(mounted).toContain(options.path);
});
