import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';
import { parse } from 'yaml';

import { loadAgentModule } from '../../../src/agents/module.ts';
import { environmentOf, render, runtimeContainer, schemaChecker } from './manifests.ts';
import type { Values } from './manifests.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const example = join(root, 'deploy', 'examples', 'mastra-agent');

test('the example with a Mastra agent is one that the runtime can load', async () => {
  const agents = await loadAgentModule(join(example, 'agents.ts'));
  expect(agents.map(({ id, name }) => ({ id, name }))).toEqual([{ id: 'support', name: 'Support' }]);
});

test('its values are valid, and name the module that its image has', () => {
  const manifests = render(parse(readFileSync(join(example, 'values.yaml'), 'utf8')) as Values);
  expect(manifests.flatMap(schemaChecker())).toEqual([]);
  const { AGENT_MODULE = '' } = environmentOf(runtimeContainer(manifests));
  const [, directory] = /^COPY package\.json agents\.ts (\S+)$/m.exec(readFileSync(join(example, 'Dockerfile'), 'utf8')) ?? [];
  expect(AGENT_MODULE).toBe(`${directory}agents.ts`);
});
