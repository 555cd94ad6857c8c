/** A program of the cluster that runs until it is stopped. What it says goes to a file; its end is an error that names the last of it. */

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

export class Daemon {
  readonly name: string;
  readonly logFile: string;
  readonly #child: ChildProcess;
  #stopped = false;

  constructor(program: string, args: readonly string[], directory: string) {
    this.name = basename(program);
    this.logFile = join(directory, `${this.name}.log`);
    const log = openSync(this.logFile, 'a');
    this.#child = spawn(program, args, { stdio: ['ignore', log, log] });
    this.#child.on('error', error => console.error(`${this.name}: ${error.message}`));
    this.#child.on('exit', (code, signal) => {
      if (!this.#stopped) console.error(`${this.name} ended with ${code ?? signal}: ${this.lastWords()}`);
    });
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  /** Throws when it has ended. */
  assertRunning(): void {
    if (this.#child.exitCode === null && this.#child.signalCode === null) return;
    throw new Error(`${this.name} is not running: ${this.lastWords()}`);
  }

  lastWords(): string {
    return readFileSync(this.logFile, 'utf8').slice(-3000);
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    this.#stopped = true;
    if (this.#child.exitCode !== null || this.#child.signalCode !== null || this.#child.pid === undefined) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill(signal);
    await gone;
  }
}
