/** Starts `lease-holder.ts` processes and reads what they did. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { until } from './until.ts';

export interface HolderConfig {
  url: string;
  prefix: string;
  key: string;
  owner: string;
  actsFile: string;
  ttlMs: number;
  /** `original`: every acquire that fails counts as acquired, and a lost lease only ends the renewals. */
  manner: 'ours' | 'original';
}

export type HolderCommand = { do: 'contend' } | { do: 'block'; ms: number };

export type HolderEvent =
  | { event: 'connected' | 'started' | 'not acquired' }
  | { event: 'failed'; retryable: boolean }
  | { event: 'stopped'; code: string; atMs: number };

export interface Act {
  atMs: number;
  owner: string;
  fencingToken?: number;
}

export interface Holder {
  readonly owner: string;
  readonly events: readonly HolderEvent[];
  readonly running: boolean;
  command(command: HolderCommand): void;
  pause(): void;
  resume(): void;
  saw(event: HolderEvent['event']): boolean;
}

/** Processes that contend for one key and write their acts to one file. */
export class Holders {
  readonly #directory = mkdtempSync(join(tmpdir(), 'signals-acts-'));
  readonly #actsFile = join(this.#directory, 'acts');
  readonly #stops: (() => Promise<void>)[] = [];

  constructor() {
    writeFileSync(this.#actsFile, '');
  }

  /** Resolves when it has connected, or tried to. */
  async start(config: Omit<HolderConfig, 'actsFile' | 'key' | 'prefix'>): Promise<Holder> {
    const full: HolderConfig = { ...config, actsFile: this.#actsFile, key: 'thread:{p1}:r:t', prefix: 'mastra:topic' };
    const child = fork(join(import.meta.dirname, 'lease-holder.ts'), [JSON.stringify(full)]);
    const events: HolderEvent[] = [];
    child.on('message', message => void events.push(message as HolderEvent));
    this.#stops.push(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    });
    const holder: Holder = {
      owner: config.owner,
      events,
      get running() {
        return child.exitCode === null && child.signalCode === null;
      },
      command: command => void child.send(command),
      pause: () => void child.kill('SIGSTOP'),
      resume: () => void child.kill('SIGCONT'),
      saw: event => events.some(each => each.event === event),
    };
    await until(`${config.owner} has connected`, () => holder.saw('connected'));
    return holder;
  }

  acts(owner?: string): Act[] {
    const lines = readFileSync(this.#actsFile, 'utf8').split('\n').filter(line => line !== '');
    return lines.map(line => JSON.parse(line) as Act).filter(act => owner === undefined || act.owner === owner);
  }

  /** How often the acting owner changed. With one owner after the other it is one less than there were owners. */
  ownerChanges(): number {
    const owners = this.acts().map(act => act.owner);
    return owners.filter((owner, at) => at > 0 && owner !== owners[at - 1]).length;
  }

  async stop(): Promise<void> {
    for (const stop of this.#stops) await stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
