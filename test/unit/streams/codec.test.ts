import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { decodeEntry, entryFields, retryFields, stampedEvent } from '../../../src/redis/streams/codec.ts';

describe('the wire format', () => {
  it('survives any event: what is decoded is what JSON makes of what was sent', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), fc.string(), (data, type, runId) => {
        const event = stampedEvent({ type, runId, data });
        const decoded = decodeEntry({ id: '1-0', fields: entryFields(JSON.stringify(event), undefined) });
        expect(JSON.stringify(decoded?.event)).toBe(JSON.stringify(event));
        expect(decoded?.event.createdAt).toEqual(event.createdAt);
        expect(decoded?.event.deliveryAttempt).toBe(1);
      }),
    );
  });

  it('carries the trace beside the event, over retries too', () => {
    const trace = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', tracestate: 'a=b' };
    const fields = entryFields(JSON.stringify(stampedEvent({ type: 't', runId: 'r', data: 1 })), trace);
    expect(fields.slice(2)).toEqual(['traceparent', trace.traceparent, 'tracestate', 'a=b']);
    const decoded = decodeEntry({ id: '1-0', fields });
    expect(decoded?.trace).toEqual(trace);
    if (!decoded) throw new Error('not decoded');
    const retried = decodeEntry({ id: '2-0', fields: retryFields(decoded, 2) });
    expect(retried?.trace).toEqual(trace);
    expect(retried?.event).toEqual({ ...decoded.event, deliveryAttempt: 2 });
  });

  it('does not put baggage or other fields of a carrier on the wire', () => {
    expect(entryFields('{}', { traceparent: 'x', baggage: 'user=1' })).toEqual(['event', '{}', 'traceparent', 'x']);
  });

  it.each(['{', '[]', 'null', '7', '"text"', ''])('answers nothing for %s', json => {
    expect(decodeEntry({ id: '1-0', fields: ['event', json] })).toBeUndefined();
  });

  it('answers nothing for an entry without the field', () => {
    expect(decodeEntry({ id: '1-0', fields: ['other', '{}'] })).toBeUndefined();
  });
});
