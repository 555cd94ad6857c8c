/** What a group feed asks of Redis besides reading: each of these is one script, checked and done in one step. */

import type { StreamsSettings } from './options.ts';
import type { RedisClient } from '../connection.ts';
import type { Script, ScriptArgument } from '../script-runner.ts';
import { loadScript, runScript } from '../script-runner.ts';
import type { GroupFeed } from './group-feed.ts';
import type { MainConnection } from './main-connection.ts';
import { idBefore, compareIds } from './stream-id.ts';

/** No entry is idle for that long unless its reader said so: it was handed back. */
export const handedBackIdleMs = 86_400_000;
/** The original's fan-out subscribers look at their stream every second or so. */
const silentFanoutMs = 3_600_000;

export class GroupCommands {
  readonly #connection: MainConnection;
  readonly #settings: StreamsSettings;
  readonly #create = loadScript('create-group');
  readonly #nack = loadScript('nack-event');
  readonly #extend = loadScript('extend-event');
  readonly #return = loadScript('return-events');
  readonly #leave = loadScript('leave-group');

  readonly #removeIdle = loadScript('remove-idle');
  /** Where siblings hear that there are entries to claim. */
  readonly returnChannel: string;

  constructor(connection: MainConnection, settings: StreamsSettings, returnChannel: string) {
    this.returnChannel = returnChannel;
    this.#connection = connection;
    this.#settings = settings;
  }

  /** For a subscription: the stream is made if there is none, so that `latest` has a place to begin at. */
  async create(feed: GroupFeed): Promise<void> {
    await this.#run('create the consumer group', this.#create, feed, [feed.anchor, this.#settings.streamIdleTtlMs, 1]);
  }

  /**
   * After `NOGROUP`. Answers `false` when the stream itself is gone: then the group is made when somebody writes again,
   * rather than leaving an empty stream for every topic that has ended.
   */
  async recover(feed: GroupFeed): Promise<boolean> {
    const from = feed.lastId ?? feed.anchor;
    const args = [from, this.#settings.streamIdleTtlMs, 0];
    return Number(await this.#run('re-create the consumer group', this.#create, feed, args)) >= 0;
  }

  /** Settles one entry if it is still ours: gives it back with `fields`, or drops it without. */
  async settle(feed: GroupFeed, id: string, fields: readonly string[] = []): Promise<boolean> {
    const args = [feed.consumer, id, this.#settings.streamIdleTtlMs, ...fields];
    return Number(await this.#run('nack', this.#nack, feed, args)) === 1;
  }

  async extend(feed: GroupFeed, id: string): Promise<boolean> {
    return Number(await this.#run('extend', this.#extend, feed, [feed.consumer, id])) === 1;
  }

  async handBack(feed: GroupFeed, ids: readonly string[]): Promise<void> {
    const sorted = [...ids].sort(compareIds);
    const [first] = sorted;
    if (first === undefined) return;
    await this.#run('hand back entries', this.#return, feed, [
      feed.consumer,
      idBefore(first),
      handedBackIdleMs,
      this.returnChannel,
      ...sorted,
    ]);
  }

  /** Removes what dead processes left on the stream. */
  async removeIdle(feed: GroupFeed): Promise<void> {
    const silentMs = this.#settings.reclaimIdleMs * 10;
    const call = { script: this.#removeIdle, keys: [feed.key], args: [feed.consumer, silentMs, silentFanoutMs] };
    await this.#connection.run('remove idle consumers', client => runScript(client, call));
  }

  async leave(feed: GroupFeed): Promise<void> {
    await this.#run('leave the group', this.#leave, feed, [feed.consumer]);
  }

  #run(what: string, script: Script, feed: GroupFeed, args: readonly ScriptArgument[]): Promise<unknown> {
    const call = { script, keys: [feed.key], args: [feed.group, ...args] };
    return this.#connection.run(what, (client: RedisClient) => runScript(client, call));
  }
}
