/**
 * A ConfigMap as kubelet mounts it: a directory with one file for each key, all behind the link `..data`. An update makes a new
 * directory and swaps that link, so a set is read from where the link led and thrown away if it led elsewhere afterwards.
 *
 * The swap is watched, and the directory is read on a timer as well: notifications are lost on some file systems, and a
 * watch on a directory that was replaced hears nothing.
 */

import { watch } from 'node:fs';
import type { FSWatcher } from 'node:fs';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';

import type { SourceTrouble } from '../contracts/lifecycle.ts';
import { jitterMs } from '../core/backoff.ts';
import type { Clock } from '../core/clock.ts';
import { errorMessage } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { sleep } from '../core/waits.ts';
import { sameValues } from './config-map.ts';
import type { ConfigMapValues } from './config-map.ts';

export interface MountedSourceOptions {
  readonly directory: string;
  /** Gets all values after each change; none when the directory is empty. */
  readonly feed: (values: ConfigMapValues) => void;
  readonly count: (trouble: SourceTrouble) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Read this often whatever the watch says, give or take a fifth. Default 10000. */
  readonly pollMs?: number;
  /** After a notification, and between two readings that have to be the same. Default 50. */
  readonly settleMs?: number;
}

/** A setting is a few bytes; larger files are not for us. */
const largestFileBytes = 64 * 1024;
/** Readings of a set that keeps changing; after that the next poll decides. */
const mostReadings = 20;

export class MountedSource {
  /** Resolves when the first reading was tried, whatever became of it. */
  readonly firstRead: Promise<void>;
  readonly #options: MountedSourceOptions;
  readonly #settleMs: number;
  readonly #stopping = new AbortController();
  readonly #done: Promise<void>;
  #watcher: FSWatcher | undefined;
  /** The directory was read since this watch began: a change from here on is one that it has to tell of. */
  #watchAnswers = false;
  /** The watch told of something that was not read yet. */
  #noticed = false;
  #wake = (): void => {};
  #fed: ConfigMapValues | undefined;
  #failing = false;

  /** Starts at once. */
  constructor(options: MountedSourceOptions) {
    this.#options = options;
    this.#settleMs = options.settleMs ?? 50;
    this.#watch();
    this.firstRead = this.#read('first');
    this.#done = this.firstRead.then(() => this.#run());
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#watcher?.close();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { clock, pollMs = 10_000 } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#waitForNotice(jitterMs(pollMs, 0.2));
      if (this.#noticed) await sleep(clock, this.#settleMs, signal);
      if (signal.aborted) return;
      const why = this.#noticed ? 'notice' : 'poll';
      this.#noticed = false; // what is told from here on needs another reading
      await this.#read(why);
      if (!this.#watcher) this.#watch();
    }
  }

  async #waitForNotice(limitMs: number): Promise<void> {
    if (this.#noticed) return;
    const notice = new AbortController();
    this.#wake = () => notice.abort();
    await sleep(this.#options.clock, limitMs, AbortSignal.any([notice.signal, this.#stopping.signal]));
    this.#wake = () => {};
  }

  #watch(): void {
    try {
      const watcher = watch(this.#options.directory, { persistent: false });
      this.#watcher = watcher;
      this.#watchAnswers = false;
      watcher.on('change', () => {
        this.#noticed = true;
        this.#wake();
      });
      // Polling goes on, and tries to watch again.
      watcher.on('error', () => this.#unwatch());
    } catch {
      // A directory that can't be watched is said by the reading that fails too; one that only can't be watched is polled.
      this.#watcher = undefined;
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  /** Never rejects: what can't be read changes nothing. */
  async #read(why: 'first' | 'notice' | 'poll'): Promise<void> {
    const { directory, feed, count, logger } = this.#options;
    const watchAnswers = this.#watchAnswers;
    try {
      const values = await this.#stableValues();
      this.#watchAnswers = this.#watcher !== undefined;
      if (this.#failing) logger.info('settings are read from the directory again', { directory });
      this.#failing = false;
      const before = this.#fed ?? {};
      if (values === undefined || sameValues(values, before)) return;
      if (why === 'poll' && watchAnswers && this.#watcher && !this.#noticed) {
        count('missed');
        logger.warn('a change of settings was found by reading again: no watch had told of it', { directory });
      }
      this.#fed = values;
      feed(values);
    } catch (error) {
      count('failed');
      this.#unwatch(); // the directory may come back as another
      if (!this.#failing) {
        logger.warn('settings could not be read from the directory; those in effect stay', { directory, error: errorMessage(error) });
      }
      this.#failing = true;
    }
  }

  /** A set that was not being changed while it was read; `undefined` if there was none. */
  async #stableValues(): Promise<ConfigMapValues | undefined> {
    let last: { at: string; values: ConfigMapValues } | undefined;
    for (let reading = 0; reading < mostReadings && !this.#stopping.signal.aborted; reading++) {
      const at = await this.#dataDirectory();
      const values = await this.#valuesIn(at);
      const swapped = at !== this.#options.directory;
      // Behind the link nothing is changed in place; without it two readings have to agree.
      if (swapped ? (await this.#dataDirectory()) === at : last?.at === at && sameValues(last.values, values)) return values;
      last = { at, values };
      await sleep(this.#options.clock, swapped ? 0 : this.#settleMs, this.#stopping.signal);
    }
    return undefined;
  }

  async #dataDirectory(): Promise<string> {
    const { directory } = this.#options;
    try {
      return await realpath(join(directory, '..data'));
    } catch (error) {
      if (isMissing(error)) return directory;
      throw error;
    }
  }

  async #valuesIn(directory: string): Promise<ConfigMapValues> {
    const values: Record<string, string> = {};
    for (const name of await readdir(directory)) {
      if (name.startsWith('..')) continue; // kubelet's own
      const text = await this.#valueOf(join(directory, name));
      if (text !== undefined) values[name] = text;
    }
    return values;
  }

  async #valueOf(file: string): Promise<string | undefined> {
    try {
      const facts = await stat(file);
      if (!facts.isFile()) return undefined;
      if (facts.size <= largestFileBytes) return await readFile(file, 'utf8');
      this.#options.count('unparsable');
      return undefined;
    } catch (error) {
      // Swapped away meanwhile: the next reading sees another set.
      if (isMissing(error)) return undefined;
      throw error;
    }
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === 'ENOENT';
}
