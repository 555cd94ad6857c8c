/**
 * A database that refuses what a stale owner writes. The rule is one statement, and it works in any SQL database: keep
 * the largest token that was seen per thread, and let a write in only under that one or a larger one.
 *
 * A run that was paused, cut off or forgotten may come back and write under its old token at any time. Its lease can't
 * stop it any more; this can.
 */

import { DatabaseSync } from 'node:sqlite';

/** The run that wrote is not the thread's current one any more. It should stop; trying again is of no use. */
export class StaleTokenError extends Error {
  constructor(thread: string, token: number) {
    super(`thread ${thread} has been taken over: token ${token} is not the latest`);
  }
}

export class FencedDatabase {
  readonly #database: DatabaseSync;

  constructor(file: string) {
    this.#database = new DatabaseSync(file, { timeout: 5000 });
    this.#database.exec(`
      CREATE TABLE IF NOT EXISTS fences (thread TEXT PRIMARY KEY, token INTEGER NOT NULL);
      CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, thread TEXT NOT NULL, item TEXT NOT NULL);
    `);
  }

  /** Throws `StaleTokenError`, and then nothing was written. */
  addOrder(thread: string, token: number, item: string): void {
    this.#fenced(thread, token, () => {
      this.#database.prepare('INSERT INTO orders (thread, item) VALUES (?, ?)').run(thread, item);
    });
  }

  orders(thread: string): string[] {
    const rows = this.#database.prepare('SELECT item FROM orders WHERE thread = ? ORDER BY id').all(thread);
    return rows.map(row => String(row['item']));
  }

  close(): void {
    this.#database.close();
  }

  /** Check and write are one transaction: a check that comes before it says nothing about when the write happens. */
  #fenced(thread: string, token: number, write: () => void): void {
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      const { changes } = this.#database
        .prepare(
          `INSERT INTO fences (thread, token) VALUES (?, ?)
           ON CONFLICT (thread) DO UPDATE SET token = excluded.token WHERE excluded.token >= fences.token`,
        )
        .run(thread, token);
      if (changes === 0) throw new StaleTokenError(thread, token);
      write();
      this.#database.exec('COMMIT');
    } catch (error) {
      this.#database.exec('ROLLBACK');
      throw error;
    }
  }
}
