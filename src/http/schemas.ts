/**
 * The bodies of the `/api` routes: those of the Mastra server as `@mastra/client-js` 1.47 sends them. Unknown fields are
 * ignored, except in a signal and in the options of a run, which are carried as they are.
 */

import { z } from 'zod';

const longestId = 512;

export const identifier = z.string().min(1).max(longestId);

const anyRecord = z.record(z.string(), z.unknown());

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()], {
  error: 'must be a string, a number, a boolean or null',
});

export const attributes = z.record(z.string(), scalar);

const part = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text'), text: z.string(), providerOptions: anyRecord.optional() }),
    z.object({
      type: z.literal('file'),
      data: z.string(),
      mediaType: z.string().min(1),
      filename: z.string().optional(),
      providerOptions: anyRecord.optional(),
    }),
  ],
  { error: 'must be a part of type "text" or "file"' },
);

const contents = z.union([z.string(), z.array(part).min(1)], {
  error: 'must be a string or an array of text and file parts',
});

const message = z.union(
  [
    z.string(),
    z.array(part).min(1),
    z.object({
      /** Ours: makes a retry of this message the same message. */
      id: identifier.optional(),
      contents,
      attributes: attributes.optional(),
      metadata: anyRecord.optional(),
      providerOptions: anyRecord.optional(),
    }),
  ],
  { error: 'must be a string, an array of text and file parts, or an object with contents' },
);

export const signalBody = z
  .looseObject({
    id: identifier.optional(),
    type: z.string().min(1).max(64),
    contents,
    attributes: attributes.optional(),
    metadata: anyRecord.optional(),
    providerOptions: anyRecord.optional(),
    tagName: z.string().optional(),
    transient: z.boolean().optional(),
    createdAt: z
      .string()
      .refine(text => !Number.isNaN(Date.parse(text)), 'must be a date and time in ISO 8601')
      .optional(),
  })
  .refine(signal => signal.type !== 'state' || signal.transient !== true, {
    path: ['transient'],
    error: 'must not be set on a signal of type "state"',
  });

const target = {
  resourceId: identifier.optional(),
  threadId: identifier.optional(),
  /** Only into this run; without a thread, wherever it is. */
  runId: identifier.optional(),
};

const behaviors = {
  ifActive: z
    .object({ behavior: z.enum(['deliver', 'persist', 'discard']).optional(), attributes: attributes.optional() })
    .optional(),
  ifIdle: z
    .object({
      behavior: z.enum(['wake', 'persist', 'discard']).optional(),
      attributes: attributes.optional(),
      streamOptions: anyRecord.optional(),
    })
    .optional(),
};

interface Target {
  readonly runId?: string | undefined;
  readonly resourceId?: string | undefined;
  readonly threadId?: string | undefined;
}

/** A run, or a whole thread. */
function checkTarget(body: Target, check: z.core.$RefinementCtx<Target>): void {
  for (const field of ['resourceId', 'threadId'] as const) {
    const other = field === 'threadId' ? body.resourceId : body.threadId;
    if (body[field] !== undefined || (body.runId !== undefined && other === undefined)) continue;
    check.addIssue({
      code: 'custom',
      path: [field],
      message: 'must be a string that is not empty (a target is resourceId with threadId, or runId)',
    });
  }
}

export const keyHeader = z.object({ 'Idempotency-Key': identifier });

export const messageBody = z.object({ ...target, ...behaviors, message }).superRefine(checkTarget);
export const sendSignalBody = z.object({ ...target, ...behaviors, signal: signalBody }).superRefine(checkTarget);

/** As mailboxes write them: two whole numbers, each below 2^64. One that no store understands must not become its failure. */
const eventId = z.string().regex(/^\d{1,19}-\d{1,19}$/, 'must be the id of an event that was received');

export const resumeHeader = z.object({ 'Last-Event-ID': eventId });

/** Without `resourceId` the thread is one of the agent's own: its id stands in, as in the client. */
export const subscribeBody = z.object({
  resourceId: identifier.optional(),
  threadId: identifier,
  /** Ours: for clients that cannot set the `Last-Event-ID` header. */
  lastEventId: eventId.optional(),
});

export const abortBody = z.object({
  resourceId: identifier.optional(),
  threadId: identifier,
  expectedRunId: identifier.optional(),
  /** Discard what waits behind the run, instead of running it next. */
  clearPendingSignals: z.boolean().optional(),
});

export type MessageBody = z.infer<typeof messageBody>;
export type SendSignalBody = z.infer<typeof sendSignalBody>;
