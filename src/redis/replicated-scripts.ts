/**
 * Runs scripts and says whether their writes are on replicas as well: what a primary alone has, dies with it.
 *
 * `WAIT` speaks of the writes of its own connection and holds up whatever comes behind it there. So one is sent for a
 * whole group: while it waits, the next group gathers. Give this a connection of its own.
 */

import { Cluster } from 'ioredis';

import { systemClock } from '../core/clock.ts';
import { invalidOption, SignalsError } from '../core/errors.ts';
import { sleep } from '../core/waits.ts';
import type { RedisClient } from './connection.ts';
import { isMoved } from './failures.ts';
import { hashTag } from './keys.ts';
import { isMissingScript, runScript } from './script-runner.ts';
import type { ScriptCall } from './script-runner.ts';

export interface ReplicationOptions {
  /** Replicas that must have a write before it counts. Default 0: the primary's word is enough. */
  replicaAcks?: number;
  /** How long they may take, ms. Default 500; keep it below the connection's command timeout. */
  replicaAckTimeoutMs?: number;
}

export interface ReplicatedReply {
  readonly reply: unknown;
  /** Whether enough replicas have what the script wrote. */
  readonly replicated: boolean;
}

interface Waiting {
  readonly call: ScriptCall;
  readonly resolve: (reply: ReplicatedReply) => void;
  readonly reject: (error: unknown) => void;
}

/** Scripts that share a `WAIT`: enough to make its round trip cheap, few enough not to keep the server from others. */
const maxGroup = 256;
/** Callers that may wait for their group. With a replica that answers nothing each group takes the whole timeout. */
const maxWaiting = 4096;
/** How often, and how soon, scripts go after a slot that was moved or whose node was replaced. */
const maxMoves = 20;
const moveAfterMs = 50;

export class ReplicatedScripts {
  readonly #client: RedisClient;
  readonly #acks: number;
  readonly #timeoutMs: number;
  /** By what may go in one pipeline: one entry, or one a slot in a Cluster. An entry exists while its group is on its way. */
  readonly #waiting = new Map<string, Waiting[]>();

  constructor(client: RedisClient, options: ReplicationOptions = {}) {
    this.#client = client;
    this.#acks = whole('replicaAcks', options.replicaAcks ?? 0, 0);
    this.#timeoutMs = whole('replicaAckTimeoutMs', options.replicaAckTimeoutMs ?? 500, 1);
  }

  /** The script's reply; throws what the server or the connection threw. */
  run(call: ScriptCall): Promise<ReplicatedReply> {
    if (this.#acks === 0) return runScript(this.#client, call).then(reply => ({ reply, replicated: true }));
    return new Promise((resolve, reject) => this.#gather({ call, resolve, reject }));
  }

  #gather(waiting: Waiting): void {
    const slot = this.#client instanceof Cluster ? hashTag(waiting.call.keys[0] ?? '') : '';
    const gathering = this.#waiting.get(slot);
    if (gathering && gathering.length >= maxWaiting) {
      waiting.reject(new SignalsError('SIG_STORE_UNAVAILABLE', 'too many are waiting for replicas to confirm'));
    } else if (gathering) {
      gathering.push(waiting);
    } else {
      this.#waiting.set(slot, [waiting]);
      queueMicrotask(() => void this.#sendAll(slot));
    }
  }

  async #sendAll(slot: string): Promise<void> {
    for (;;) {
      const group = this.#waiting.get(slot)?.splice(0, maxGroup) ?? [];
      if (group.length === 0) return void this.#waiting.delete(slot);
      try {
        await this.#send(group, 'evalsha');
      } catch (error) {
        for (const waiting of group) waiting.reject(error);
      }
    }
  }

  async #send(group: readonly Waiting[], how: 'evalsha' | 'eval', moves = 0): Promise<void> {
    const { replies, replicated } = await this.#execute(group, how);
    const missing: Waiting[] = [];
    const moved: Waiting[] = [];
    for (const [at, waiting] of group.entries()) {
      const [error, reply] = replies[at] ?? [new Error('the pipeline gave no reply'), undefined];
      if (!error) waiting.resolve({ reply, replicated });
      else if (how === 'evalsha' && isMissingScript(error)) missing.push(waiting);
      else if (isMoved(error) && moves < maxMoves) moved.push(waiting);
      else waiting.reject(error);
    }
    if (missing.length > 0) await this.#send(missing, 'eval', moves);
    if (moved.length === 0) return;
    await this.#newMap();
    await this.#send(moved, how, moves + 1);
  }

  async #execute(group: readonly Waiting[], how: 'evalsha' | 'eval') {
    const pipeline = this.#client.pipeline();
    for (const { call } of group) {
      const script = how === 'eval' ? call.script.text : call.script.sha;
      pipeline[how](script, call.keys.length, ...call.keys, ...call.args);
    }
    pipeline.wait(this.#acks, this.#timeoutMs);
    const replies = (await pipeline.exec()) ?? [];
    const acknowledged = replies[group.length]?.[1];
    return { replies, replicated: typeof acknowledged === 'number' && acknowledged >= this.#acks };
  }

  /** The client follows what was moved by itself, but not in a pipeline of which a part succeeded: here `WAIT` always does. */
  async #newMap(): Promise<void> {
    const client = this.#client;
    if (client instanceof Cluster) await new Promise<void>(resolve => client.refreshSlotsCache(() => resolve()));
    await sleep(systemClock, moveAfterMs);
  }
}

function whole(name: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw invalidOption(name, value, `a whole number, at least ${least}`);
}
