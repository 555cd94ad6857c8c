/** The standard `OTEL_*` variables that we heed, and what they mean for the SDK. Names: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ */

import { SignalsError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Where a signal goes, or `undefined` when nobody said where: the specification's default (localhost:4318) would only fill the
 * log of everyone who has no collector. Throws `SIG_SETTINGS_INVALID` for what is no URL.
 */
export function otlpEndpoint(environment: Environment, signal: 'traces' | 'metrics', logger: Logger): string | undefined {
  const upper = signal.toUpperCase();
  const exporters = listOf(environment[`OTEL_${upper}_EXPORTER`]);
  if (exporters.includes('none')) return undefined;
  for (const other of exporters.filter(name => name !== 'otlp' && name !== 'prometheus')) {
    logger.warn('telemetry exporter is not supported', { variable: `OTEL_${upper}_EXPORTER`, value: other });
  }
  if (exporters.length > 0 && !exporters.includes('otlp')) return undefined;

  const own = `OTEL_EXPORTER_OTLP_${upper}_ENDPOINT`;
  const url = textOf(environment[own]) ?? withPath(textOf(environment['OTEL_EXPORTER_OTLP_ENDPOINT']), signal);
  if (url === undefined) return undefined;
  const variable = textOf(environment[own]) ? own : 'OTEL_EXPORTER_OTLP_ENDPOINT';
  if (!URL.canParse(url) || !['http:', 'https:'].includes(new URL(url).protocol)) {
    const shown = url.replace(/\/\/[^@/]*@/, '//***@');
    throw new SignalsError('SIG_SETTINGS_INVALID', `${variable} must be an http or https URL, got ${JSON.stringify(shown)}`, {
      details: { name: variable, allowed: 'http://host:port or https://host:port' },
    });
  }
  warnOfProtocol(environment, upper, logger);
  return url;
}

function withPath(base: string | undefined, signal: string): string | undefined {
  return base === undefined ? undefined : `${base.replace(/\/+$/, '')}/v1/${signal}`;
}

function warnOfProtocol(environment: Environment, upper: string, logger: Logger): void {
  const name = `OTEL_EXPORTER_OTLP_${upper}_PROTOCOL`;
  const protocol = textOf(environment[name]) ?? textOf(environment['OTEL_EXPORTER_OTLP_PROTOCOL']);
  if (protocol === undefined || protocol === 'http/protobuf') return;
  logger.warn('telemetry protocol is not supported, http/protobuf is used', { variable: name, value: protocol });
}

/** A whole number of at least `least`; anything else is said and ignored, as the specification asks. */
export function wholeNumber(environment: Environment, name: string, least: number, logger: Logger): number | undefined {
  const text = textOf(environment[name]);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  logger.warn('telemetry setting is ignored', { variable: name, value: text, allowed: `a whole number from ${least}` });
  return undefined;
}

/** `OTEL_RESOURCE_ATTRIBUTES`: `name=value,...`, values percent-encoded. */
export function resourceAttributes(environment: Environment): Record<string, string> {
  const pairs = listOf(environment['OTEL_RESOURCE_ATTRIBUTES']).flatMap((pair): [string, string][] => {
    const at = pair.indexOf('=');
    if (at <= 0) return [];
    return [[pair.slice(0, at).trim(), decoded(pair.slice(at + 1).trim())]];
  });
  return Object.fromEntries(pairs);
}

export function isDisabled(environment: Environment): boolean {
  return textOf(environment['OTEL_SDK_DISABLED'])?.toLowerCase() === 'true';
}

/** An empty value is as good as none. */
export function textOf(value: string | undefined): string | undefined {
  const trimmed = value?.trim();
  return trimmed === '' ? undefined : trimmed;
}

function listOf(value: string | undefined): string[] {
  return (value ?? '')
    .split(',')
    .map(item => item.trim())
    .filter(Boolean);
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value; // not percent-encoded after all: it is meant as it stands
  }
}
