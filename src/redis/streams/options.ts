/** The options of `RedisStreamsPubSub`: what they mean, what they may hold, and how they depend on each other. */

import { invalidOption } from '../../core/errors.ts';
import { errorMessage } from '../../core/errors.ts';
import { silentLogger } from '../../core/logger.ts';
import type { LogFields, Logger } from '../../core/logger.ts';
import type { RedisSource } from '../connection.ts';
import { defaultKeyPrefix } from '../keys.ts';

/** As the original takes it: pino, console and the like fit as they are. */
export interface StreamsLogger {
  debug?: (...args: unknown[]) => void;
  warn?: (...args: unknown[]) => void;
}

export interface RedisStreamsPubSubOptions extends RedisSource {
  /** Stream key `<keyPrefix>:<topic>`, lease key `<keyPrefix>:lease:<key>`. Default `mastra:topic`. */
  keyPrefix?: string;
  /**
   * Longest silence of one read, ms; five of them without any answer and the connection counts as dead. Default 1000.
   * Where the server refuses `CLIENT TRACKING` it is also the longest time between two looks at a stream.
   */
  blockMs?: number;
  /** Approximate number of entries kept per stream; 0 = no trim. Default 10000. */
  maxStreamLength?: number;
  /** A stream that nobody wrote to for this long is deleted by Redis, ms; 0 = never. Default 0. */
  streamIdleTtlMs?: number;
  /** How often events of dead consumers are looked for, ms; 0 = never. Default 30000. */
  reclaimIntervalMs?: number;
  /** How long an event must have been pending before it is taken over, ms; 0 = never. Default 60000. */
  reclaimIdleMs?: number;
  /** Deliveries of one event before it is dropped; `Infinity` = no cap. Default 5. */
  maxDeliveryAttempts?: number;
  /** A handler that is silent for this long is nacked on its behalf, ms; 0 = never. Default 0. */
  inFlightTimeoutMs?: number;
  /**
   * Handlers of one subscription that may run at the same time; with more running its stream is not read on. Default
   * 4096: far above what a handler that awaits its own later events needs, and a bound nevertheless.
   */
  maxInFlight?: number;
  /** How long a publish may wait for the connection, and any command for its reply, ms. Default 5000. */
  commandTimeoutMs?: number;
  /** Publishes that may wait for the connection; one more is refused at once. Default 10000. */
  maxQueuedPublishes?: number;
  /** Longest time that `close()` takes, ms, in any state. Default 5000. */
  closeTimeoutMs?: number;
  logger?: StreamsLogger;
}

export interface StreamsSettings {
  readonly keyPrefix: string;
  readonly blockMs: number;
  readonly maxStreamLength: number;
  readonly streamIdleTtlMs: number;
  readonly reclaimIntervalMs: number;
  readonly reclaimIdleMs: number;
  readonly maxDeliveryAttempts: number;
  readonly inFlightTimeoutMs: number;
  readonly maxInFlight: number;
  readonly commandTimeoutMs: number;
  readonly maxQueuedPublishes: number;
  readonly closeTimeoutMs: number;
}

/** The longest delay that a timer of Node can keep. */
const maxTimerMs = 2 ** 31 - 1;

/** Throws `SIG_OPTION_INVALID`, naming the option, its value and what is allowed. */
export function checkedSettings(options: RedisStreamsPubSubOptions): StreamsSettings {
  const whole = (name: keyof StreamsSettings, fallback: number, min: number, max: number, unit: string): number => {
    const value = (options as Record<string, unknown>)[name] ?? fallback;
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
    throw invalidOption(name, value, `a whole number${unit} from ${min} to ${max}`);
  };
  const ms = (name: keyof StreamsSettings, fallback: number, min = 0) =>
    whole(name, fallback, min, maxTimerMs, ' of milliseconds');
  const count = (name: keyof StreamsSettings, fallback: number, min: number) =>
    whole(name, fallback, min, Number.MAX_SAFE_INTEGER, '');

  return {
    keyPrefix: checkedPrefix(options.keyPrefix ?? defaultKeyPrefix),
    blockMs: ms('blockMs', 1000, 1),
    maxStreamLength: count('maxStreamLength', 10_000, 0),
    // A stream may have to live for longer than a timer can: this one is kept by Redis.
    streamIdleTtlMs: whole('streamIdleTtlMs', 0, 0, Number.MAX_SAFE_INTEGER, ' of milliseconds'),
    reclaimIntervalMs: ms('reclaimIntervalMs', 30_000),
    reclaimIdleMs: ms('reclaimIdleMs', 60_000),
    maxDeliveryAttempts: checkedAttempts(options.maxDeliveryAttempts ?? 5),
    inFlightTimeoutMs: ms('inFlightTimeoutMs', 0),
    maxInFlight: count('maxInFlight', 4096, 1),
    commandTimeoutMs: ms('commandTimeoutMs', 5000, 1),
    maxQueuedPublishes: count('maxQueuedPublishes', 10_000, 0),
    closeTimeoutMs: ms('closeTimeoutMs', 5000, 1),
  };
}

function checkedPrefix(value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw invalidOption('keyPrefix', value, 'a string that is not empty');
}

function checkedAttempts(value: unknown): number {
  if (value === Infinity) return Infinity;
  // The original takes 0 for "no cap"; a fleet that moves over keeps its setting.
  if (value === 0) return Infinity;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1) return value;
  throw invalidOption('maxDeliveryAttempts', value, 'a whole number from 1, or Infinity');
}

/** Our logger over the two methods that the option has; what throws in a user's logger must not stop deliveries. */
export function adaptedLogger(logger: StreamsLogger | undefined): Logger {
  if (!logger) return silentLogger;
  const say = (method: 'debug' | 'warn') => (message: string, fields?: LogFields) => {
    try {
      logger[method]?.(message, ...(fields ? [fields] : []));
    } catch (error) {
      // Nowhere is left to say it but the other method; a logger that throws there too is left alone.
      void errorMessage(error);
    }
  };
  return { debug: say('debug'), info: say('debug'), warn: say('warn'), error: say('warn') };
}
