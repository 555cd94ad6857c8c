/**
 * The thread mailbox on Redis. Each step is one script and one round trip; every script may be repeated after a lost
 * reply, so a failure of unknown outcome is tried again within a limit before the caller hears of it.
 *
 * This file maps calls to scripts and replies to answers. The steps themselves are in `scripts/`, the hints in
 * `sharded-channels.ts`, reading of output in `output-reader.ts`, the threads that wait in `waiting-index.ts`.
 */

import type { Chunk } from '../contracts/agent.ts';
import { encodeEnvelope } from '../contracts/stored-envelope.ts';
import { parseThreadName, partitionCount, partitionOf, threadLeaseKey, threadName } from '../contracts/thread.ts';
import type { ThreadRef } from '../contracts/thread.ts';
import type {
  AbortOutcome,
  AbortRequest,
  Appended,
  DeliverRequest,
  Delivery,
  FollowRequest,
  Grant,
  InboxEntry,
  LeaseClaim,
  MailboxLimits,
  MailboxListener,
  OutputChunk,
  Settlement,
  SettleRequest,
  Taken,
  TakeRequest,
  ThreadMailbox,
  ThreadState,
} from '../contracts/thread-mailbox.ts';
import { instant, systemClock } from '../core/clock.ts';
import type { Clock, Instant } from '../core/clock.ts';
import { SignalsError } from '../core/errors.ts';
import { storeError } from './connection.ts';
import type { RedisClient } from './connection.ts';
import type { RedisKeys } from './keys.ts';
import { deadLettersKept, deadLettersKeptMs, decodeEntry, replyOf, takePageSize } from './mailbox-wire.ts';
import type { Reply } from './mailbox-wire.ts';
import { followOutput } from './output-reader.ts';
import { repeatable } from './repeatable.ts';
import type { ReplicatedScripts } from './replicated-scripts.ts';
import { loadScript, runScript } from './script-runner.ts';
import type { Script, ScriptArgument } from './script-runner.ts';
import type { ShardedChannels } from './sharded-channels.ts';
import { WaitingIndex } from './waiting-index.ts';

export interface RedisMailboxOptions {
  /** Of role `commands`; the caller opens and closes it. */
  commands: RedisClient;
  /** Where hints are heard; the caller closes them. */
  channels: ShardedChannels;
  keys: RedisKeys;
  limits: MailboxLimits;
  /**
   * Where accepted signals and leases that are given out must be on replicas before they count: runs those scripts on a
   * connection of its own. Absent: the primary's word is enough.
   */
  replicated?: ReplicatedScripts;
  clock?: Clock;
}

const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);

export class RedisMailbox implements ThreadMailbox {
  readonly #client: RedisClient;
  readonly #keys: RedisKeys;
  readonly #limits: MailboxLimits;
  readonly #clock: Clock;
  readonly #channels: ShardedChannels;
  readonly #replicated: ReplicatedScripts | undefined;
  readonly #index: WaitingIndex;
  readonly #scripts = {
    deliver: loadScript('deliver-signal'),
    claim: loadScript('claim-thread'),
    take: loadScript('take-signals'),
    settle: loadScript('settle-run'),
    append: loadScript('append-output'),
    spare: loadScript('spare-signals'),
    abort: loadScript('abort-run'),
  };
  /** Output batches that each grant has put out. */
  readonly #batches = new WeakMap<Grant, number>();

  constructor(options: RedisMailboxOptions) {
    this.#client = options.commands;
    this.#keys = options.keys;
    this.#limits = options.limits;
    this.#clock = options.clock ?? systemClock;
    this.#replicated = options.replicated;
    this.#channels = options.channels;
    this.#index = new WaitingIndex({
      client: this.#client,
      keys: this.#keys,
      command: (what, command) => this.#command(what, command),
      run: (script, keys, args) => this.#run(script, keys, args),
    });
  }

  /** Checks that this data was written with our number of partitions, or writes it. Throws `SIG_STORE_INCOMPATIBLE`. */
  async prepare(): Promise<void> {
    const written = await this.#command('reading the number of partitions', async () => {
      await this.#client.setnx(this.#keys.partitions(), partitionCount);
      return await this.#client.get(this.#keys.partitions());
    });
    if (Number(written) === partitionCount) return;
    throw new SignalsError(
      'SIG_STORE_INCOMPATIBLE',
      `${this.#keys.partitions()} holds ${written}: this version spreads threads over ${partitionCount} partitions`,
    );
  }

  async deliver(request: DeliverRequest): Promise<Delivery> {
    const { thread, envelope, claim } = request;
    const keys = this.#keys.thread(thread);
    const text = encodeEnvelope(request, this.#limits.signalMaxBytes);
    const askedAt = instant(this.#clock);
    const { reply, replicated } = await this.#runReplicated(
      this.#scripts.deliver,
      [
        keys.lease, keys.token, keys.fence, keys.inbox, keys.state, keys.index,
        this.#keys.seen(thread, envelope.signal.id), keys.out, keys.runs,
      ],
      [
        threadName(thread), text, envelope.agentId, envelope.turn, request.ifActive.behavior, request.ifIdle.behavior,
        claim?.owner ?? '', claim?.ttlMs ?? 0, this.#limits.dedupeWindowMs, this.#limits.maxEntries,
        this.#limits.maxBytes, request.expectedRunId ?? '', this.#instanceChannels(thread), this.#orphanChannel(thread),
        envelope.signal.id,
      ],
    );
    const delivery = this.#delivery(reply, thread, claim, askedAt, request.expectedRunId);
    if (replicated) return delivery;
    // It may die with the primary: it is not accepted yet, and a retry with its id asks for the confirmation again.
    if (delivery.grant) await this.#giveBack(thread, delivery.grant);
    throw notReplicated('the signal');
  }

  #delivery(
    reply: Reply, thread: ThreadRef, claim: LeaseClaim | undefined, askedAt: Instant, expectedRunId?: string,
  ): Delivery {
    if (reply.code === 'other_run') {
      throw new SignalsError('SIG_RUN_UNKNOWN', `run ${expectedRunId} is not the one that is on`);
    }
    if (reply.code === 'blocked') return { action: 'blocked', duplicate: false, owner: reply.text(0) };
    if (reply.code === 'full') {
      throw new SignalsError('SIG_INBOX_FULL', `${reply.number(0)} signals (${reply.number(1)} bytes) are waiting already`, {
        details: { maxEntries: this.#limits.maxEntries, maxBytes: this.#limits.maxBytes },
      });
    }
    const owner = reply.text(1);
    const token = reply.text(2);
    return {
      action: reply.text(0) as Delivery['action'],
      duplicate: reply.code === 'duplicate',
      ...(owner ? { owner } : {}),
      ...(token && claim ? { grant: grantOf(thread, claim, token, askedAt, [reply.text(4), reply.text(5)]) } : {}),
    };
  }

  async claim(thread: ThreadRef, claim: LeaseClaim): Promise<Grant | undefined> {
    const keys = this.#keys.thread(thread);
    const askedAt = instant(this.#clock);
    const { reply, replicated } = await this.#runReplicated(
      this.#scripts.claim,
      [keys.lease, keys.token, keys.fence, keys.state, keys.index, keys.out, keys.runs],
      [threadName(thread), claim.owner, claim.ttlMs, this.#instanceChannels(thread)],
    );
    if (reply.code !== 'granted') return undefined;
    const grant = grantOf(thread, claim, reply.text(0), askedAt, [reply.text(1), reply.text(2)]);
    if (replicated) return grant;
    await this.#giveBack(thread, grant);
    return undefined;
  }

  async take({ thread, grant, join }: TakeRequest): Promise<Taken> {
    const keys = this.#keys.thread(thread);
    const reply = await this.#run(
      this.#scripts.take,
      [keys.lease, keys.token, keys.inbox, keys.state, keys.index, keys.dead, keys.deadIndex],
      [
        threadName(thread), grant.owner, tokenText(grant), this.#limits.maxDeliveryAttempts, deadLettersKept,
        takePageSize, join?.agentId ?? '', join?.cursor ?? '', deadLettersKeptMs,
      ],
    );
    if (reply.code === 'lost') throw lost(grant);
    return {
      cursor: reply.text(0),
      abortRequested: reply.number(1) === 1,
      entries: reply.list(2).map((entry): InboxEntry => decodeEntry(entry)),
      deadLettered: reply.number(3),
      more: reply.number(4) === 1,
    };
  }

  async settle({ thread, grant, consumed, returned = [], next, offerMs = 0 }: SettleRequest): Promise<Settlement> {
    const keys = this.#keys.thread(thread);
    const askedAt = instant(this.#clock);
    const { reply, replicated } = await this.#runReplicated(
      this.#scripts.settle,
      [keys.lease, keys.token, keys.fence, keys.inbox, keys.state, keys.index, keys.out, keys.runs],
      [
        threadName(thread), grant.owner, tokenText(grant), next?.owner ?? '', next?.ttlMs ?? offerMs,
        this.#orphanChannel(thread), consumed.length, ...consumed, ...returned,
      ],
    );
    if (reply.code === 'lost') throw lost(grant);
    if (reply.code === 'offered') return { waiting: reply.number(0), offered: true };
    if (reply.code === 'released' || !next) return { waiting: reply.number(0) };
    const following = grantOf(thread, next, reply.text(0), askedAt);
    if (replicated) return { waiting: reply.number(1), grant: following };
    await this.#giveBack(thread, following);
    return { waiting: reply.number(1) };
  }

  async spare(thread: ThreadRef, grant: Grant): Promise<void> {
    await this.#run(this.#scripts.spare, [this.#keys.thread(thread).state], [tokenText(grant)]);
  }

  async append(thread: ThreadRef, grant: Grant, chunks: readonly Chunk[]): Promise<Appended> {
    const keys = this.#keys.thread(thread);
    const batch = (this.#batches.get(grant) ?? 0) + 1;
    const reply = await this.#run(
      this.#scripts.append,
      [keys.lease, keys.token, keys.out, keys.state],
      [
        grant.owner, tokenText(grant), this.#limits.outputMaxChunks, this.#limits.outputRetentionMs,
        this.#keys.outputChannel(thread), batch, ...chunks.map(chunk => JSON.stringify(chunk)),
      ],
    );
    if (reply.code === 'lost') throw lost(grant);
    this.#batches.set(grant, batch);
    return { abortRequested: reply.number(0) === 1 };
  }

  async abort(thread: ThreadRef, { expectedRunId = '', clearWaiting = false }: AbortRequest = {}): Promise<AbortOutcome> {
    const keys = this.#keys.thread(thread);
    const reply = await this.#run(
      this.#scripts.abort,
      [keys.lease, keys.token, keys.inbox, keys.state, keys.index],
      [threadName(thread), expectedRunId, this.#instanceChannels(thread), clearWaiting ? 1 : 0],
    );
    if (reply.code !== 'asked') return { aborted: false, cancelledSignalIds: [] };
    return { aborted: true, runId: reply.text(0), cancelledSignalIds: reply.texts(1) };
  }

  follow(request: FollowRequest): Promise<AsyncIterable<OutputChunk>> {
    const retentionMs = this.#limits.outputRetentionMs;
    return followOutput({ client: this.#client, channels: this.#channels, keys: this.#keys, clock: this.#clock, retentionMs }, request);
  }

  due(limit: number): Promise<ThreadRef[]> {
    return this.#index.due(limit);
  }

  async waiting(limit: number): Promise<ThreadState[]> {
    const threads = await this.#index.waiting(limit);
    return await Promise.all(threads.map(thread => this.inspect(thread)));
  }

  async inspect(thread: ThreadRef): Promise<ThreadState> {
    const keys = this.#keys.thread(thread);
    const [owner, token, remainingMs, waiting] = await this.#command('inspecting a thread', () =>
      Promise.all([
        this.#client.get(keys.lease), this.#client.get(keys.token), this.#client.pttl(keys.lease),
        this.#client.xlen(keys.inbox),
      ]),
    );
    return {
      thread,
      waiting,
      ...(owner === null ? {} : { owner, leaseRemainingMs: remainingMs }),
      ...(owner === null || token === null ? {} : { fencingToken: Number(token) }),
    };
  }

  async listen(instanceId: string, listener: MailboxListener): Promise<() => Promise<void>> {
    const own = partitions.map(partition => this.#keys.instanceChannel(partition, instanceId));
    const orphans = partitions.map(partition => this.#keys.orphanChannel(partition));
    const onOwn = { onMessage: (text: string) => dispatchHint(text, listener), onResync: () => listener.onResync() };
    const onOrphan = { onMessage: (name: string) => listener.onOrphan(parseThreadName(name)), onResync: () => {} };
    await Promise.all([this.#channels.add(own, onOwn), this.#channels.add(orphans, onOrphan)]);
    return () => {
      this.#channels.remove(own, onOwn);
      this.#channels.remove(orphans, onOrphan);
      return Promise.resolve();
    };
  }

  /** Nothing of its own is open: the connections are the caller's. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  #instanceChannels(thread: ThreadRef): string {
    return this.#keys.instanceChannelPrefix(partitionOf(thread));
  }

  #orphanChannel(thread: ThreadRef): string {
    return this.#keys.orphanChannel(partitionOf(thread));
  }

  /** A lease that its replicas have not got counts as not acquired. Should this fail as well, it runs out by itself. */
  async #giveBack(thread: ThreadRef, grant: Grant): Promise<void> {
    await this.settle({ thread, grant, consumed: [] }).catch(() => {});
  }

  async #runReplicated(
    script: Script,
    keys: readonly string[],
    args: readonly ScriptArgument[],
  ): Promise<{ reply: Reply; replicated: boolean }> {
    const scripts = this.#replicated;
    if (!scripts) return { reply: await this.#run(script, keys, args), replicated: true };
    const { reply, replicated } = await this.#command(script.name, () => scripts.run({ script, keys, args }));
    return { reply: replyOf(reply), replicated };
  }

  async #run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<Reply> {
    return replyOf(await this.#command(script.name, () => runScript(this.#client, { script, keys, args })));
  }

  async #command<T>(what: string, command: () => Promise<T>): Promise<T> {
    try {
      return await repeatable(this.#clock, command);
    } catch (error) {
      throw storeError(what, error);
    }
  }
}

function grantOf(
  thread: ThreadRef, claim: LeaseClaim, token: string, askedAt: Instant, [unownedMs, takenOver] = ['', ''],
): Grant {
  return {
    key: threadLeaseKey(thread),
    owner: claim.owner,
    ttlMs: claim.ttlMs,
    askedAt,
    fencingToken: Number(token),
    ...(unownedMs === '' ? {} : { unownedMs: Number(unownedMs) }),
    ...(takenOver === '1' ? { takenOver: true } : {}),
  };
}

function tokenText(grant: Grant): string {
  return grant.fencingToken === undefined ? '' : String(grant.fencingToken);
}

function notReplicated(what: string): SignalsError {
  return new SignalsError('SIG_STORE_UNAVAILABLE', `${what} was not confirmed by enough replicas in time`);
}

function lost(grant: Grant): SignalsError {
  return new SignalsError('SIG_LEASE_LOST', `${grant.owner} no longer owns ${grant.key}`, {
    details: { key: grant.key, owner: grant.owner, fencingToken: grant.fencingToken },
  });
}

/** `arrival <thread>` or `abort <run> <thread>`. */
function dispatchHint(text: string, listener: MailboxListener): void {
  const [kind, first = '', second = ''] = text.split(' ');
  if (kind === 'arrival') listener.onArrival(parseThreadName(first));
  if (kind === 'abort') listener.onAbort(parseThreadName(second), first);
}

