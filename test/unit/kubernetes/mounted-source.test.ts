import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import type { SourceTrouble } from '../../../src/contracts/lifecycle.ts';
import { systemClock } from '../../../src/core/clock.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { MountedSource } from '../../../src/kubernetes/mounted-source.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { until } from '../../support/until.ts';

let root: string;
let directory: string;
let source: MountedSource | undefined;
let fed: Record<string, string>[];
let troubles: SourceTrouble[];
let logs: string[];
let swaps = 0;

const logger: Logger = {
  debug() {},
  info: message => void logs.push(`info: ${message}`),
  warn: message => void logs.push(`warn: ${message}`),
  error: message => void logs.push(`error: ${message}`),
};

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'signals-mounted-'));
  directory = join(root, 'settings');
  mkdirSync(directory);
  source = undefined;
  fed = [];
  troubles = [];
  logs = [];
});

afterEach(async () => {
  await source?.stop();
  rmSync(root, { recursive: true, force: true });
});

/** As kubelet does it: a new directory, then the link to it is renamed over the old one. */
function swap(values: Record<string, string>): void {
  const target = `..2026_${++swaps}`;
  mkdirSync(join(directory, target));
  for (const [name, value] of Object.entries(values)) writeFileSync(join(directory, target, name), value);
  symlinkSync(target, join(directory, '..data_tmp'));
  renameSync(join(directory, '..data_tmp'), join(directory, '..data'));
  for (const name of Object.keys(values)) {
    rmSync(join(directory, name), { force: true });
    symlinkSync(join('..data', name), join(directory, name));
  }
  if (swaps > 1) rmSync(join(directory, `..2026_${swaps - 1}`), { recursive: true, force: true });
}

function follow(options: { clock?: FakeClock; pollMs?: number; onTrouble?: () => void } = {}): MountedSource {
  source = new MountedSource({
    directory, logger,
    clock: options.clock ?? systemClock,
    pollMs: options.pollMs ?? 10_000,
    settleMs: 5,
    feed: values => void fed.push({ ...values }),
    count(trouble) {
      troubles.push(trouble);
      options.onTrouble?.();
    },
  });
  return source;
}

describe('a mounted ConfigMap', () => {
  test('is read at start, and again when kubelet swaps its link', async () => {
    swap({ TTL: '15000\n', DRIFT: '700' });
    await follow().firstRead;
    expect(fed).toEqual([{ TTL: '15000\n', DRIFT: '700' }]);
    swap({ TTL: '20000' });
    await until('the swap is seen', () => fed.length === 2);
    expect(fed[1]).toEqual({ TTL: '20000' });
    expect(troubles).toEqual([]);
  });

  test('is read as one set, however often it is swapped meanwhile', async () => {
    swap({ A: '0', B: '0', C: '0' });
    await follow({ pollMs: 2 }).firstRead;
    let round = 0;
    // Without the check of where the link leads some of these readings are mixtures.
    await until('many sets were read', () => {
      const value = String(++round);
      swap({ A: value, B: value, C: value });
      return fed.length > 20;
    }, 9000, 3);
    await until('the last is read', () => fed.at(-1)?.['A'] === String(round));
    for (const values of fed) expect(new Set(Object.values(values)).size, JSON.stringify(values)).toBe(1);
    for (const values of fed) expect(Object.keys(values)).toHaveLength(3);
  });

  test('that lost all of its values takes them away', async () => {
    swap({ TTL: '1' });
    await follow().firstRead;
    swap({});
    await until('they are gone', () => fed.length === 2);
    expect(fed[1]).toEqual({});
  });

  test('is polled: a swap that no watch told of is found and counted', async () => {
    swap({ TTL: '1' });
    const clock = new FakeClock();
    // A watch of what is reached over a link does not hear of the link being led elsewhere.
    const other = join(root, 'other');
    renameSync(directory, other);
    symlinkSync(other, directory);
    const following = follow({ clock });
    await until('it is read', async () => {
      await clock.advance(1000);
      return fed.length === 1;
    });
    await following.firstRead;
    rmSync(directory);
    mkdirSync(directory);
    swap({ TTL: '2' });
    await until('the poll finds it', async () => {
      await clock.advance(1000);
      return fed.length === 2;
    });
    expect(troubles).toEqual(['missed']);
  });

  test('that is not there is said once, and read once it is', async () => {
    swap({ TTL: '1' });
    const away = `${directory}.away`;
    renameSync(directory, away);
    await follow({ pollMs: 5 }).firstRead;
    await until('it was tried again', () => troubles.length > 3);
    expect(logs).toHaveLength(1);
    expect(fed).toEqual([]);
    renameSync(away, directory); // whole and at once, as a mount is
    await until('it is read', () => fed.length === 1);
    await until('that is said', () => logs.length === 2);
  });

  test('that comes back right before it is watched again was missed by no watch', async () => {
    swap({ TTL: '1' });
    const away = `${directory}.away`;
    renameSync(directory, away);
    const clock = new FakeClock();
    // Between the reading that fails and the watch that is begun after it.
    const following = follow({ clock, onTrouble: () => void (troubles.length === 2 && renameSync(away, directory)) });
    await following.firstRead;
    await until('it is read', async () => {
      await clock.advance(1000);
      return fed.length === 1;
    });
    expect(troubles).toEqual(['failed', 'failed']);
    expect(logs.map(line => line.split(':')[0])).toEqual(['warn', 'info']);
  });

  test('may be a plain directory: what is still being written is not taken', async () => {
    writeFileSync(join(directory, 'TTL'), '1');
    await follow({ pollMs: 5 }).firstRead;
    expect(fed).toEqual([{ TTL: '1' }]);
    writeFileSync(join(directory, 'TTL'), '15000');
    await until('the edit is read', () => fed.at(-1)?.['TTL'] === '15000');
  });

  test('larger things in it are counted and left alone', async () => {
    writeFileSync(join(directory, 'HUGE'), 'x'.repeat(100_000));
    mkdirSync(join(directory, 'lost+found'));
    writeFileSync(join(directory, 'TTL'), '1');
    await follow().firstRead;
    expect(fed).toEqual([{ TTL: '1' }]);
    expect(troubles).toContain('unparsable');
  });
});
