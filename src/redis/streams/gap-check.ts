/** Notices that a stream was trimmed faster than it was read. Asked only when a reader is behind. */

import type { Redis } from 'ioredis';

import { loadScript, runScript } from '../script-runner.ts';
import { FanoutFeed } from './fanout-feed.ts';
import type { Feed } from './feed.ts';
import { GroupFeed } from './group-feed.ts';

export class GapCheck {
  readonly #reader: Redis;
  readonly #script = loadScript('measure-gap');

  constructor(reader: Redis) {
    this.#reader = reader;
  }

  /** To be sent ahead of the feed's next read. Rejects like any command. */
  async measure(feed: Feed): Promise<void> {
    if (feed instanceof GroupFeed) {
      feed.lostSoFar(Number(await this.#ask(feed, [feed.group, '', 0])));
    } else if (feed instanceof FanoutFeed && feed.ordinal !== undefined) {
      const lost = Number(await this.#ask(feed, ['', feed.position, feed.ordinal]));
      if (lost > 0) feed.skipped(lost);
    }
  }

  #ask(feed: Feed, args: (string | number)[]): Promise<unknown> {
    return runScript(this.#reader, { script: this.#script, keys: [feed.key], args });
  }
}
