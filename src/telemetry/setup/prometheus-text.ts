/** `/metrics`: read when asked, written by the SDK's own serializer. */

import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { MetricReader } from '@opentelemetry/sdk-metrics';

import { errorMessage } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { knownOnly } from './known-values.ts';
import { withPrometheusNames } from './prometheus-names.ts';

export class PrometheusText extends MetricReader {
  readonly #serializer = new PrometheusSerializer(undefined, false, undefined, false, true);
  readonly #logger: Logger;

  constructor(seriesLimit: number, logger: Logger) {
    super({ cardinalitySelector: () => seriesLimit });
    this.#logger = logger;
  }

  /** Text format 0.0.4. A failure is a comment in the text and a line in the log: a scrape never fails for it. */
  async text(): Promise<string> {
    try {
      const { resourceMetrics, errors } = await this.collect();
      for (const error of errors) this.#logger.warn('metric could not be read', { error: errorMessage(error) });
      // The serializer may bring its own copy of the metrics package, in which the same types have other identities.
      const named: unknown = withPrometheusNames(knownOnly(resourceMetrics));
      return ended(this.#serializer.serialize(named as Parameters<PrometheusSerializer['serialize']>[0]));
    } catch (error) {
      this.#logger.warn('metrics could not be collected', { error: errorMessage(error) });
      return '# metrics could not be collected, see the log\n';
    }
  }

  protected override onForceFlush(): Promise<void> {
    return Promise.resolve();
  }

  protected override onShutdown(): Promise<void> {
    return Promise.resolve();
  }
}

function ended(text: string): string {
  return text.endsWith('\n') ? text : `${text}\n`;
}
