/** Logs: one JSON object a line, a constant message with fields, the ids of the active span, no secrets. */

import { trace } from '@opentelemetry/api';
import { pino } from 'pino';

import { invalidOption } from '../core/errors.ts';
import { logLevels } from '../core/logger.ts';
import type { LogFields, Logger, LogLevel } from '../core/logger.ts';
import { redacted } from './redaction.ts';
import { ShownIds } from './shown-ids.ts';

export interface LoggerOptions {
  readonly level: string;
  /** Default: standard output, written synchronously so that the last lines of a process are not lost. */
  readonly destination?: { write(line: string): void };
  /** On every line: the instance, the version. */
  readonly base?: LogFields;
  /** Ids of threads become hashes, as on spans; see `shown-ids.ts`. Default false. */
  readonly hashIds?: boolean;
}

export type LevelledLogger = Logger & {
  readonly level: string;
  /** Takes effect at once. Throws `SIG_OPTION_INVALID`. */
  setLevel(level: string): void;
};

/** Throws `SIG_OPTION_INVALID` for an unknown level. */
export function createLogger(options: LoggerOptions): LevelledLogger {
  const sink = pino(
    {
      level: checkedLevel(options.level),
      base: options.base ? redacted(options.base) : {},
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    options.destination ?? pino.destination({ dest: 1, sync: true }),
  );
  const ids = new ShownIds(options.hashIds ?? false);
  const at = (level: 'debug' | 'info' | 'warn' | 'error') => (message: string, fields?: LogFields) => {
    // Asked first, since redaction costs more than the question.
    if (sink.isLevelEnabled(level)) sink[level]({ ...(fields && ids.fields(redacted(fields))), ...activeTrace() }, message);
  };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    get level() {
      return sink.level;
    },
    setLevel(level) {
      sink.level = checkedLevel(level);
    },
  };
}

function checkedLevel(level: string): LogLevel {
  const known = logLevels.find(name => name === level);
  if (known) return known;
  throw invalidOption('level', level, `one of ${logLevels.join(', ')}`);
}

/** The field names are those of the OpenTelemetry specification for logs that are not OTLP. */
function activeTrace(): LogFields {
  const span = trace.getActiveSpan()?.spanContext();
  if (!span || !trace.isSpanContextValid(span)) return {};
  return { trace_id: span.traceId, span_id: span.spanId };
}
