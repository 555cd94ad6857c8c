/** The parts that the queries of all panels are made of. */

/** What the variables at the top of each dashboard choose. */
const chosen = 'cluster=~"$cluster", namespace=~"$namespace", job=~"$job", pod=~"$pod"';

/** Series of the chosen pods; `matchers` as PromQL writes them. */
export function series(metric: string, matchers = ''): string {
  return `${metric}{${[chosen, matchers].filter(Boolean).join(', ')}}`;
}

/** Per second, over a window that fits the panel's resolution and the scrape interval. */
export function rate(metric: string, matchers = ''): string {
  return `rate(${series(metric, matchers)}[$__rate_interval])`;
}

/** How many within each step of the panel: for what happens rarely, where a rate would be a line close to 0. */
export function increase(metric: string, matchers = ''): string {
  return `increase(${series(metric, matchers)}[$__rate_interval])`;
}

/**
 * As `increase`, for histograms and other series that begin with their first event, which `increase` does not see: a series that
 * was not there one window ago counts as it is.
 */
export function happened(metric: string, matchers = ''): string {
  const now = series(metric, matchers);
  return `((${now} unless ${now} offset $__rate_interval) or ${increase(metric, matchers)})`;
}

/** As `quantile`, of what is rare: with the event that a series begins with. */
export function quantileOfRare(share: number, metric: string): string {
  return `histogram_quantile(${share}, ${sumBy('le', happened(`${metric}_bucket`))})`;
}

export function sumBy(labels: string, expression: string): string {
  return labels === '' ? `sum(${expression})` : `sum by (${labels}) (${expression})`;
}

/** Of a histogram, by its name without `_bucket`. */
export function quantile(share: number, metric: string, by = '', matchers = ''): string {
  return `histogram_quantile(${share}, ${sumBy(['le', by].filter(Boolean).join(', '), rate(`${metric}_bucket`, matchers))})`;
}

/** 0 where nothing was counted yet: series of failures begin with the first failure. */
export function orZero(expression: string): string {
  return `(${expression} or vector(0))`;
}
