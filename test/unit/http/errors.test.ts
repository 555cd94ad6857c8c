import { describe, expect, it } from 'vitest';

import { SignalsError } from '../../../src/core/errors.ts';
import type { ErrorCode } from '../../../src/core/errors.ts';
import { statusByCode } from '../../../src/http/errors.ts';

describe('the status of a failure', () => {
  it.each(Object.entries(statusByCode) as [ErrorCode, number][])('%s: %i invites a retry exactly if one may help', (code, status) => {
    expect([429, 503].includes(status)).toBe(new SignalsError(code, 'x').retryable);
  });
});
