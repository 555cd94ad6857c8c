import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { alertRules } from '../../../deploy/alerts/generate.ts';

const directory = join(import.meta.dirname, '../../../deploy/alerts');
const rules = readFileSync(join(directory, 'signals-runtime.rules.yaml'), 'utf8');
const runbook = readFileSync(join(directory, 'RUNBOOK.md'), 'utf8');

/** The text of each rule, by the name of its alert. */
const alerts = new Map(
  rules
    .split(/^ {6}- alert: /m)
    .slice(1)
    .map(text => [text.slice(0, text.indexOf('\n')), text] as const),
);
const entries = new Map(
  runbook
    .split(/^## /m)
    .slice(1)
    .map(text => [text.slice(0, text.indexOf('\n')), text] as const),
);

test('each alert has an entry in the runbook that says what it means, how to look and what to do; and each entry an alert', () => {
  expect(alerts.size).toBeGreaterThan(12);
  expect([...entries.keys()]).toEqual([...alerts.keys()]);
  for (const [alert, text] of entries) {
    for (const part of ['Means', 'Look', 'Do']) expect(text, alert).toMatch(new RegExp(`^\\*\\*${part}\\.\\*\\* .{20,}`, 'm'));
  }
});

test('each alert says how urgent it is, and carries its entry', () => {
  for (const [alert, text] of alerts) {
    expect(text, alert).toMatch(/^ {10}severity: (page|ticket)$/m);
    expect(text, alert).toMatch(/^ {10}runbook: \|\n {12}Means\. .+\n {12}Look\. .+\n {12}Do\. .+$/m);
    expect(text, alert).toMatch(/^ {10}summary: .{10,}$/m);
  }
});

test('each alert links to its entry, once it is known where the runbook is', () => {
  const linked = alertRules('https://runbooks.example/signals');
  for (const alert of alerts.keys()) expect(linked).toContain(`runbook_url: https://runbooks.example/signals#${alert.toLowerCase()}\n`);
  expect(rules).not.toContain('runbook_url');
});

test('links within the runbook lead somewhere', () => {
  const anchors = [...entries.keys()].map(name => name.toLowerCase());
  for (const [, anchor] of runbook.matchAll(/\]\(#([^)]*)\)/g)) expect(anchors).toContain(anchor);
});

test('each alert is tested for firing and for staying quiet', () => {
  const cases = readdirSync(join(directory, 'tests'))
    .map(file => readFileSync(join(directory, 'tests', file), 'utf8'))
    .flatMap(text => [...text.matchAll(/alertname: (\w+)\n\s+exp_alerts:( \[\])?/g)])
    .map(([, alert, quiet]) => `${alert} ${quiet === undefined ? 'fires' : 'is quiet'}`);
  for (const alert of alerts.keys()) {
    expect(cases).toContain(`${alert} fires`);
    expect(cases).toContain(`${alert} is quiet`);
  }
});
