/** The settings in effect as operators see them, by the names that they set them with. */

import type { SettingsReport } from './ports.ts';
import { leaseSettingNames, leaseVariables } from '../settings/lease-settings.ts';
import { formatProblem } from '../settings/problems.ts';
import type { EffectiveSettings } from '../settings/settings-store.ts';

export function settingsReport({ values, sources, lastRefusal }: EffectiveSettings): SettingsReport {
  return {
    effective: Object.fromEntries(
      leaseSettingNames.map(name => [leaseVariables[name], { value: values[name], source: sources[name] }]),
    ),
    ...(lastRefusal
      ? { lastRefusal: { at: lastRefusal.at, source: lastRefusal.source, problems: lastRefusal.problems.map(formatProblem) } }
      : {}),
  };
}
