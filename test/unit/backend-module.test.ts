import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { loadBackendModule } from '../../src/backend-module.ts';

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'backend-modules-'))));
afterAll(() => rmSync(folder, { recursive: true }));

let written = 0;
function module(text: string): string {
  const file = join(folder, `backend-${++written}.mjs`);
  writeFileSync(file, text);
  return file;
}

const complete = '{ publish() {}, subscribe() {}, unsubscribe() {}, flush() {} }';

test.each([
  ['an object', `export default ${complete};`],
  ['what a function makes', `export default () => (${complete});`],
  ['what a function makes in its time', `export default async () => (${complete});`],
  ['an instance of a class', 'class Own { publish() {} subscribe() {} unsubscribe() {} flush() {} } export default new Own();'],
])('%s with the methods of a PubSub is taken', async (_what, text) => {
  expect(await loadBackendModule(module(text))).toHaveProperty('publish');
});

test.each([
  ['nothing', 'export const other = 1;', /must be a PubSub, or a function that makes one; it has no publish, subscribe, unsubscribe, flush$/],
  ['half of it', 'export default { publish() {}, subscribe: 1, flush() {} };', /it has no subscribe, unsubscribe$/],
  ['a module that throws', 'throw new Error("broken");', /could not be loaded: broken$/],
  ['a function that throws', 'export default () => { throw new Error("no server"); };', /no server$/],
])('%s is refused, and it is said why', async (_what, text, message) => {
  await expect(loadBackendModule(module(text))).rejects.toMatchObject({ code: 'SIG_BACKEND_MODULE_INVALID', message: expect.stringMatching(message) as string });
});

test('a file that is not there is refused', async () => {
  await expect(loadBackendModule('./no-such.mjs', folder)).rejects.toThrow(`there is no file ${join(folder, 'no-such.mjs')}`);
});
