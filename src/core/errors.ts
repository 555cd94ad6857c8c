/**
 * Every failure that crosses a boundary of this project is a `SignalsError` with a stable code.
 * Whether it is worth trying again is decided here, once, and travels with the error as a value.
 */

const retryableByCode = {
  SIG_SETTINGS_INVALID: false,
  SIG_OPTION_INVALID: false,
  SIG_AGENT_UNKNOWN: false,
  SIG_AGENT_MODULE_INVALID: false,
  SIG_BACKEND_MODULE_INVALID: false,
  SIG_REQUEST_INVALID: false,
  SIG_REQUEST_MALFORMED: false,
  SIG_REQUEST_TOO_LARGE: false,
  SIG_ROUTE_UNKNOWN: false,
  SIG_AUTH_REQUIRED: false,
  SIG_RUN_UNKNOWN: false,
  SIG_SIGNAL_TOO_LARGE: false,
  SIG_INBOX_FULL: true,
  SIG_RUNTIME_DRAINING: true,
  SIG_OWNER_UNREACHABLE: true,
  SIG_STORE_UNAVAILABLE: true,
  SIG_STORE_INCOMPATIBLE: false,
  SIG_LEASE_LOST: false,
  SIG_LEASE_EXPIRED: false,
  SIG_RUN_ABORTED: false,
  SIG_RUN_FAILED: false,
  SIG_INTERNAL: false,
} as const;

export type ErrorCode = keyof typeof retryableByCode;

export interface SignalsErrorOptions {
  cause?: unknown;
  /** Facts for logs and HTTP answers. Never secrets, never message contents. */
  details?: Readonly<Record<string, unknown>>;
}

export class SignalsError extends Error {
  override readonly name = 'SignalsError';
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: SignalsErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = retryableByCode[code];
    this.details = options.details;
  }
}

export function isSignalsError(error: unknown, ...codes: ErrorCode[]): error is SignalsError {
  return error instanceof SignalsError && (codes.length === 0 || codes.includes(error.code));
}

/** The text of whatever was thrown; a thrown non-error does not become `[object Object]`. */
export function errorMessage(error: unknown): string {
  if (error instanceof Error) return error.message;
  return typeof error === 'string' ? error : JSON.stringify(error) ?? String(error);
}

/** One sentence for a bad value: names the field, what it held and what is allowed. */
export function invalidOption(name: string, value: unknown, allowed: string): SignalsError {
  return new SignalsError('SIG_OPTION_INVALID', `${name} must be ${allowed}, got ${describe(value)}`, {
    details: { name, allowed },
  });
}

function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}...` : value);
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object';
  return String(value);
}
