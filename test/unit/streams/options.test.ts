import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { RedisStreamsPubSub } from '../../../src/redis/streams-pubsub.ts';
import { checkedSettings } from '../../../src/redis/streams/options.ts';

describe('the options of RedisStreamsPubSub', () => {
  it('have the defaults of the documentation', () => {
    expect(checkedSettings({})).toMatchObject({
      keyPrefix: 'mastra:topic',
      blockMs: 1000,
      maxStreamLength: 10_000,
      streamIdleTtlMs: 0,
      reclaimIntervalMs: 30_000,
      reclaimIdleMs: 60_000,
      maxDeliveryAttempts: 5,
      inFlightTimeoutMs: 0,
    });
  });

  it.each([
    ['streamIdleTtlMs', -1],
    ['streamIdleTtlMs', 1.5],
    ['streamIdleTtlMs', Infinity],
    ['streamIdleTtlMs', '1000'],
    ['blockMs', 0],
    ['blockMs', Number.NaN],
    ['blockMs', 2 ** 31],
    ['maxStreamLength', -5],
    ['reclaimIntervalMs', -1],
    ['maxDeliveryAttempts', -1],
    ['maxDeliveryAttempts', 2.5],
    ['maxDeliveryAttempts', Number.NaN],
    ['inFlightTimeoutMs', Infinity],
    ['maxInFlight', 0],
    ['keyPrefix', ''],
    ['keyPrefix', 7],
    ['url', 'http://localhost'],
    ['url', 'not a url'],
  ])('refuse %s = %s, naming it, what it held and what is allowed', (name, value) => {
    expect(() => new RedisStreamsPubSub({ [name]: value })).toThrow(
      expect.objectContaining({ code: 'SIG_OPTION_INVALID', message: expect.stringMatching(new RegExp(`^${name} must be `)) as string }),
    );
  });

  it('never show the password of a URL that is refused', () => {
    expect(() => new RedisStreamsPubSub({ url: 'http://user:secret@host:1' })).toThrow(/^(?!.*secret).*$/);
  });

  it('take one source only', () => {
    expect(() => new RedisStreamsPubSub({ url: 'redis://localhost', cluster: { nodes: [] } })).toThrow(/one Redis source/);
  });

  it('accept every whole number in range for what is counted in milliseconds, and nothing else', () => {
    fc.assert(
      fc.property(fc.double(), value => {
        const allowed = Number.isInteger(value) && value >= 0 && value <= 2 ** 31 - 1;
        const read = () => checkedSettings({ reclaimIdleMs: value }).reclaimIdleMs;
        if (allowed) expect(read()).toBe(value);
        else expect(read).toThrow('reclaimIdleMs');
      }),
    );
  });

  it('treat 0 delivery attempts as no cap, as the original does', () => {
    expect(checkedSettings({ maxDeliveryAttempts: 0 }).maxDeliveryAttempts).toBe(Infinity);
    expect(checkedSettings({ maxDeliveryAttempts: Infinity }).maxDeliveryAttempts).toBe(Infinity);
  });

  it.each([
    [{ group: '' }, 'group'],
    [{ startFrom: 'middle' }, 'startFrom'],
    [{ batch: { maxSize: 0 } }, 'batch.maxSize'],
    [{ batch: { overflow: 'explode' } }, 'batch.overflow'],
  ])('of a subscription are checked before anything is asked of Redis: %o', async (options, name) => {
    const pubsub = new RedisStreamsPubSub({ url: 'redis://127.0.0.1:1' });
    await expect(pubsub.subscribe('t', () => {}, options as object)).rejects.toMatchObject({
      code: 'SIG_OPTION_INVALID',
      message: expect.stringContaining(name) as string,
    });
    await pubsub.close();
  });
});
