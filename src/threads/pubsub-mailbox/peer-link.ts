/**
 * How the mailboxes of one backend talk: requests to one instance or to all, with a reply and a limit, over topics.
 *
 * A peer is whoever was heard of lately. One that doesn't answer is forgotten until it is heard of again, so the dead cost
 * one wait. An instance that is alone waits for nobody.
 */

import { randomUUID } from 'node:crypto';

import type { Event, PubSub } from '../../contracts/pubsub.ts';
import type { Clock } from '../../core/clock.ts';
import { errorMessage, isSignalsError, SignalsError } from '../../core/errors.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';

const everybody = 'signals.mailboxes';
const eventType = 'signals.mailbox';

type Message =
  | { readonly kind: 'hello' | 'here' | 'bye'; readonly from: string }
  | { readonly kind: 'news'; readonly from: string; readonly body: unknown }
  | { readonly kind: 'request'; readonly from: string; readonly id: string; readonly what: string; readonly body: unknown }
  | {
      readonly kind: 'reply';
      readonly from: string;
      readonly id: string;
      readonly what: string;
      readonly body: unknown;
      readonly error?: RemoteError;
    };

interface RemoteError {
  readonly code: ErrorCode;
  readonly message: string;
}

interface Pending {
  readonly resolve: (body: unknown) => void;
  readonly reject: (error: SignalsError) => void;
}

export interface PeerLinkOptions {
  pubsub: PubSub;
  instanceId: string;
  clock: Clock;
  logger: Logger;
  /** Longest wait for a reply, ms. */
  replyLimitMs: number;
  answer: (what: string, body: unknown) => Promise<unknown>;
  onNews: (body: unknown) => void;
  /** A reply that nobody waits for any more, or that could not be sent: what it carries must not be lost with it. */
  onStray: (what: string, body: unknown) => void;
}

export class PeerLink {
  readonly #options: PeerLinkOptions;
  readonly #peers = new Set<string>();
  readonly #pending = new Map<string, Pending>();
  readonly #onEvent = (event: Event, ack?: () => Promise<void>) => this.#receive(event, ack);
  #started: Promise<void> | undefined;

  constructor(options: PeerLinkOptions) {
    this.#options = options;
  }

  /** Resolves when this instance can be reached. */
  start(): Promise<void> {
    this.#started ??= this.#open().catch((error: unknown) => {
      this.#started = undefined; // the next caller tries again
      throw error;
    });
    return this.#started;
  }

  /** Throws what the other side threw, or `SIG_OWNER_UNREACHABLE`. */
  async ask(instanceId: string, what: string, body: unknown): Promise<unknown> {
    const { clock, replyLimitMs } = this.#options;
    const id = randomUUID();
    const reply = new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
    const limit = clock.after(replyLimitMs, () => {
      this.#peers.delete(instanceId);
      const why = `instance ${instanceId} gave no answer within ${replyLimitMs} ms`;
      this.#pending.get(id)?.reject(new SignalsError('SIG_OWNER_UNREACHABLE', why));
    });
    try {
      const sent = this.#send(topicOf(instanceId), { kind: 'request', from: this.#options.instanceId, id, what, body });
      // A backend that is away may keep the sender waiting: the limit holds for that as well.
      await Promise.race([sent, reply]);
      return await reply;
    } finally {
      limit.cancel();
      this.#pending.delete(id);
    }
  }

  /** The answers of all peers that gave one in time. */
  async askAll(what: string, body: unknown): Promise<unknown[]> {
    const answers = await Promise.allSettled([...this.#peers].map(peer => this.ask(peer, what, body)));
    return answers.flatMap(answer => {
      if (answer.status === 'fulfilled') return [answer.value];
      this.#options.logger.warn('a peer was asked in vain', { what, error: errorMessage(answer.reason) });
      return [];
    });
  }

  get peers(): readonly string[] {
    return [...this.#peers];
  }

  /** Tells all others, without a reply. */
  async tell(body: unknown): Promise<void> {
    await this.#send(everybody, { kind: 'news', from: this.#options.instanceId, body });
  }

  async close(): Promise<void> {
    if (!this.#started) return;
    const { pubsub, instanceId } = this.#options;
    await this.#send(everybody, { kind: 'bye', from: instanceId });
    await pubsub.unsubscribe(everybody, this.#onEvent);
    await pubsub.unsubscribe(topicOf(instanceId), this.#onEvent);
    await pubsub.clearTopic(topicOf(instanceId));
    this.#started = undefined;
  }

  async #open(): Promise<void> {
    const { pubsub, instanceId } = this.#options;
    await pubsub.subscribe(topicOf(instanceId), this.#onEvent);
    await pubsub.subscribe(everybody, this.#onEvent);
    await this.#send(everybody, { kind: 'hello', from: instanceId });
    // Lets those that share this process, or a backend that waits for deliveries, make themselves known first.
    await pubsub.flush();
  }

  async #send(topic: string, data: Message): Promise<void> {
    await this.#options.pubsub.publish(topic, { type: eventType, data, runId: '' });
  }

  async #receive(event: Event, ack?: () => Promise<void>): Promise<void> {
    const message = event.data as Message;
    if (event.type === eventType && message.from !== this.#options.instanceId) {
      try {
        await this.#handle(message);
      } catch (error) {
        // Whoever waits for it runs into its limit and asks again; a redelivery would only be a late one.
        this.#options.logger.warn('a message of a peer was lost', { kind: message.kind, error: errorMessage(error) });
      }
    }
    await ack?.();
  }

  async #handle(message: Message): Promise<void> {
    if (message.kind === 'bye') return void this.#peers.delete(message.from);
    this.#peers.add(message.from);
    if (message.kind === 'hello') await this.#send(topicOf(message.from), { kind: 'here', from: this.#options.instanceId });
    if (message.kind === 'news') this.#options.onNews(message.body);
    if (message.kind === 'request') this.#answerLater(message);
    if (message.kind === 'reply') this.#settle(message);
  }

  /** Not awaited: an answer may need replies of others, and a backend may deliver one event after the other. */
  #answerLater(request: Message & { kind: 'request' }): void {
    this.#answer(request).catch((error: unknown) => {
      this.#options.logger.warn('a peer got no answer', { what: request.what, error: errorMessage(error) });
    });
  }

  async #answer({ from, id, what, body }: Message & { kind: 'request' }): Promise<void> {
    const reply = { kind: 'reply', from: this.#options.instanceId, id, what } as const;
    const answer = await this.#options.answer(what, body).then(
      answered => ({ ...reply, body: answered }),
      (error: unknown) => ({ ...reply, body: undefined, error: remoteError(error) }),
    );
    try {
      await this.#send(topicOf(from), answer);
    } catch (error) {
      this.#options.onStray(what, answer.body);
      throw error;
    }
  }

  #settle({ id, what, body, error }: Message & { kind: 'reply' }): void {
    const pending = this.#pending.get(id);
    if (!pending) this.#options.onStray(what, body);
    else if (error) pending.reject(new SignalsError(error.code, error.message));
    else pending.resolve(body);
  }
}

function topicOf(instanceId: string): string {
  return `signals.inbox.${instanceId}`;
}

function remoteError(error: unknown): RemoteError {
  if (isSignalsError(error)) return { code: error.code, message: error.message };
  return { code: 'SIG_INTERNAL', message: errorMessage(error) };
}
