/** `npm run bench -- <name> [arguments]` runs `test/bench/<name>.ts` in a process of its own. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const [name = '', ...rest] = process.argv.slice(2);
const file = join(import.meta.dirname, `${name}.ts`);
if (!/^[a-z][a-z-]*$/.test(name) || !existsSync(file)) {
  console.error(`there is no benchmark "${name}"; usage: npm run bench -- <name>`);
  process.exit(2);
}
const child = spawn(process.execPath, [file, ...rest], { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void child.kill(signal));
const [code] = (await once(child, 'exit')) as [number | null];
process.exit(code ?? 1);
