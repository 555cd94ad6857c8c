import { context, ROOT_CONTEXT, trace, TraceFlags } from '@opentelemetry/api';
import { expect, test } from 'vitest';

import { createLogger } from '../../../src/telemetry/logger.ts';
import { startHarness } from './harness.ts';

function capture(level = 'debug') {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) };
  return { lines, logger: createLogger({ level, destination }) };
}

test('a line is a constant message with fields', () => {
  const { lines, logger } = capture();
  logger.warn('lease lost', { key: 'thread:1', heldMs: 5 });
  const [{ time, ...rest }] = lines as [{ time: string }];
  expect(rest).toEqual({ level: 'warn', msg: 'lease lost', key: 'thread:1', heldMs: 5 });
  expect(new Date(time).getTime()).toBeGreaterThan(0);
});

test('lines of a span carry its ids, others none', async () => {
  const harness = startHarness();
  const { lines, logger } = capture();
  const spanContext = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: TraceFlags.SAMPLED };
  context.with(trace.setSpanContext(ROOT_CONTEXT, spanContext), () => logger.info('inside'));
  logger.info('outside');
  await harness.stop();
  expect(lines[0]).toMatchObject({ trace_id: spanContext.traceId, span_id: spanContext.spanId });
  expect(lines[1]).not.toHaveProperty('trace_id');
});

test('the level changes while running, in both directions', () => {
  const { lines, logger } = capture('warn');
  logger.info('unheard');
  logger.setLevel('debug');
  logger.debug('heard');
  logger.setLevel('error');
  logger.warn('unheard');
  expect(lines.map(line => line['msg'])).toEqual(['heard']);
  expect(logger.level).toBe('error');
});

test('an unknown level is refused by name and the old one stays', () => {
  const { logger } = capture('warn');
  expect(() => logger.setLevel('loud')).toThrow('level must be one of trace, debug, info, warn, error, fatal, silent, got "loud"');
  expect(logger.level).toBe('warn');
});

test('secrets do not reach a line, however deep they are and whatever they are in', () => {
  const { lines, logger } = capture();
  logger.error('failed', {
    password: 's3cret-a',
    options: { authorization: 'Bearer s3cret-b', list: [{ accessToken: 's3cret-c' }], 'x-api-key': 's3cret-d' },
    url: 'redis://user:s3cret-e@host:6379/0?password=s3cret-f',
    error: new Error('connect rediss://:s3cret-g@host failed', { cause: new Error('Authorization: Bearer s3cret-h') }),
    authTokens: ['s3cret-i'],
    AUTH_TOKENS: 's3cret-j',
    fencingToken: 17,
    fencing_token: 18,
    usage: { totalTokens: 1234 },
  });
  const [line] = lines;
  expect(JSON.stringify(line)).not.toContain('s3cret');
  expect(line).toMatchObject({ fencingToken: 17, fencing_token: 18, password: '***', usage: { totalTokens: 1234 } });
  expect(line!['url']).toBe('redis://***@host:6379/0?password=***');
});

test('an error keeps what says why, and not the arguments of the command it came from', () => {
  const { lines, logger } = capture();
  const reply = Object.assign(new Error('WRONGTYPE'), { code: 'WRONGTYPE', command: { name: 'evalsha', args: ['contents'] } });
  logger.error('failed', { error: new Error('deliver failed', { cause: reply }) });
  expect(lines[0]!['error']).toMatchObject({ type: 'Error', message: 'deliver failed', cause: { code: 'WRONGTYPE' } });
  expect(JSON.stringify(lines[0])).not.toContain('contents');
});

test('fields that JSON cannot hold do not lose the line', () => {
  const { lines, logger } = capture();
  const cycle: Record<string, unknown> = { big: 2n ** 60n, when: new Date(Number.NaN), bytes: Buffer.from('x'), map: new Map([['a', 1]]) };
  cycle['self'] = cycle;
  logger.info('odd', cycle);
  expect(lines[0]).toMatchObject({ msg: 'odd', big: '1152921504606846976', when: 'invalid date', bytes: '[1 bytes]', map: { a: 1 } });
});
