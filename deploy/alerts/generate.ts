/**
 * The alerts as they are deployed: `rules.yaml`, each rule with its entry of the runbook as an annotation, so that whoever is woken
 * has it at hand wherever the notification goes. Where the runbook can be read is known only to those who deploy:
 * `npm run dashboards -- --runbook-url <url>` adds a link to each rule, as the chart's `metrics.prometheusRule.runbookUrl` does.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { isMap, isSeq, parseDocument, Scalar } from 'yaml';
import type { YAMLMap } from 'yaml';

const head = ' Written from rules.yaml and RUNBOOK.md (npm run dashboards): change those.';

/** The text of the rules file. Throws when an alert has no entry. */
export function alertRules(runbookUrl?: string): string {
  const document = parseDocument(readFileSync(join(import.meta.dirname, 'rules.yaml'), 'utf8'));
  const entries = runbookEntries(readFileSync(join(import.meta.dirname, 'RUNBOOK.md'), 'utf8'));
  document.commentBefore = `${head}\n\n${document.commentBefore ?? ''}`;
  for (const rule of rulesOf(document.get('groups'))) {
    const alert = String(rule.get('alert'));
    const entry = entries.get(alert);
    if (entry === undefined) throw new Error(`${alert} has no entry in RUNBOOK.md`);
    const text = new Scalar(entry);
    text.type = Scalar.BLOCK_LITERAL;
    rule.setIn(['annotations', 'runbook'], text);
    if (runbookUrl !== undefined) rule.setIn(['annotations', 'runbook_url'], `${runbookUrl}#${alert.toLowerCase()}`);
  }
  return document.toString({ lineWidth: 0 });
}

function rulesOf(groups: unknown): YAMLMap[] {
  const lists = isSeq(groups) ? groups.items.map(group => (isMap(group) ? group.get('rules') : undefined)) : [];
  return lists.flatMap(rules => (isSeq(rules) ? rules.items.filter(isMap) : []));
}

/** By alert: its paragraphs, each on one line, without links that only lead within the runbook. */
export function runbookEntries(text: string): Map<string, string> {
  const sections = text.split(/^## /m).slice(1);
  return new Map(
    sections.map(section => {
      const [name = '', ...lines] = section.split('\n');
      const paragraphs = lines.join('\n').trim().split(/\n{2,}/);
      const plain = paragraphs.map(paragraph => paragraph.replaceAll('\n', ' ').replaceAll(/\[(\w+)\]\(#\w+\)/g, '$1').replaceAll('**', ''));
      return [name.trim(), `${plain.join('\n')}\n`];
    }),
  );
}
