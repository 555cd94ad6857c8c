import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { orderAgent } from '../../deploy/examples/fenced-writes/agent.ts';
import { FencedDatabase, StaleTokenError } from '../../deploy/examples/fenced-writes/fenced-database.ts';
import type { AgentRun } from '../../src/contracts/agent.ts';

let directory: string;
let file: string;
const open: FencedDatabase[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'signals-fenced-'));
  file = join(directory, 'orders.db');
});
afterEach(() => {
  for (const database of open.splice(0)) database.close();
  rmSync(directory, { recursive: true, force: true });
});

function database(): FencedDatabase {
  const opened = new FencedDatabase(file);
  open.push(opened);
  return opened;
}

describe("a user's own database (the example)", () => {
  it('accepts every write of a run, and refuses the old one once the new one has written (L6)', () => {
    const [old, next] = [database(), database()];
    old.addOrder('t', 100, 'tea');
    old.addOrder('t', 100, 'milk');
    next.addOrder('t', 101, 'coffee');
    expect(() => old.addOrder('t', 100, 'sugar')).toThrow(StaleTokenError);
    next.addOrder('t', 101, 'cake');
    expect(next.orders('t')).toEqual(['tea', 'milk', 'coffee', 'cake']);
  });

  it('leaves nothing of a refused write behind, and other threads alone', () => {
    const orders = database();
    orders.addOrder('t', 101, 'coffee');
    expect(() => orders.addOrder('t', 100, 'tea')).toThrow(StaleTokenError);
    orders.addOrder('other', 7, 'water');
    expect(orders.orders('t')).toEqual(['coffee']);
    expect(orders.orders('other')).toEqual(['water']);
  });

  it('keeps tokens to the last digit', () => {
    const orders = database();
    const large = 1_796_069_140_840_391;
    orders.addOrder('t', large + 1, 'coffee');
    expect(() => orders.addOrder('t', large, 'tea')).toThrow(StaleTokenError);
    orders.addOrder('t', large + 1, 'cake');
  });
});

describe('the agent of the example', () => {
  async function runAgent(fencingToken: number | undefined, ...items: string[]): Promise<unknown[]> {
    const run = {
      agentId: 'orders', runId: 'r', thread: { resourceId: 'user', threadId: 't' },
      signals: items.map(contents => ({ contents })), abortSignal: new AbortController().signal, attempt: 1,
      ...(fencingToken === undefined ? {} : { fencingToken }),
    } as unknown as AgentRun;
    const chunks: unknown[] = [];
    for await (const chunk of orderAgent(database())(run)) chunks.push(chunk);
    return chunks;
  }

  it('fails when its thread has been taken over, and will not write without a token', async () => {
    expect(await runAgent(100, 'tea', 'milk')).toHaveLength(2);
    await runAgent(101, 'coffee');
    await expect(runAgent(100, 'sugar')).rejects.toThrow(StaleTokenError);
    await expect(runAgent(undefined, 'salt')).rejects.toThrow('needs a fencing token');
    expect(database().orders('user/t')).toEqual(['tea', 'milk', 'coffee']);
  });
});
