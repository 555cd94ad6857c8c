/**
 * What an instance does with Kubernetes, as far as its settings ask for it: follows ConfigMaps, sends Events, keeps the cost of
 * deleting its pod. None of it is needed to run, so nothing here ever fails or holds up a start or a stop.
 *
 * - config-map-source.ts  a ConfigMap through the API
 * - mounted-source.ts     a ConfigMap as a directory
 * - event-recorder.ts     Events on our pod
 * - pod-deletion-cost.ts  which pod goes first
 * - api-client.ts         requests, with limits
 */

import type { LifecycleEvent, LifecycleListener, ReloadableSource, SettingsFeed, SourceTrouble } from '../contracts/lifecycle.ts';
import { systemClock } from '../core/clock.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import { settledWithin } from '../core/waits.ts';
import { ApiClient } from './api-client.ts';
import { ConfigMapSource } from './config-map-source.ts';
import { EventRecorder } from './event-recorder.ts';
import type { PodIdentity } from './event-recorder.ts';
import { MountedSource } from './mounted-source.ts';
import { PodDeletionCost } from './pod-deletion-cost.ts';

/** Where one set of settings is. */
export type SettingsLocation =
  | { readonly kind: 'config_map'; readonly namespace: string; readonly name: string }
  | { readonly kind: 'directory'; readonly path: string };

export interface KubernetesFeatures {
  readonly sources: Partial<Readonly<Record<ReloadableSource, SettingsLocation>>>;
  /** Send Events on this pod. */
  readonly events?: PodIdentity;
  /** Keep the cost of deleting this pod. */
  readonly deletionCost?: PodIdentity;
}

export interface KubernetesOptions {
  readonly features: KubernetesFeatures;
  readonly instanceId: string;
  readonly feed: SettingsFeed;
  readonly count: (source: ReloadableSource, trouble: SourceTrouble) => void;
  readonly ownedThreads: () => number;
  readonly logger: Logger;
  readonly clock?: Clock;
}

export interface Kubernetes extends LifecycleListener {
  /** Waits until each source was read once, whatever became of it, for at most `limitMs`. */
  firstRead(limitMs: number): Promise<void>;
  /** Sends what is still to be told, for at most `limitMs`. Never rejects. */
  close(limitMs: number): Promise<void>;
}

export async function startKubernetes(options: KubernetesOptions): Promise<Kubernetes> {
  const { features, instanceId, feed, count, ownedThreads, logger, clock = systemClock } = options;
  const api = needsApi(features) ? await connect(clock) : undefined;
  const shared = { clock, logger };
  const sources = Object.entries(features.sources).map(([source, location]) => {
    const to = {
      ...shared,
      feed: (values: Readonly<Record<string, string>>) => feed(source as ReloadableSource, values),
      count: (trouble: SourceTrouble) => count(source as ReloadableSource, trouble),
    };
    if (location.kind === 'directory') return new MountedSource({ ...to, directory: location.path });
    return new ConfigMapSource({ ...to, ...asConfigMap(location, api) });
  });
  const recorder = features.events && api && new EventRecorder({ ...shared, api, pod: features.events, instanceId });
  const cost = features.deletionCost && api && new PodDeletionCost({ ...shared, api, pod: features.deletionCost, ownedThreads });
  return {
    happened: (event: LifecycleEvent) => recorder?.happened(event),
    async firstRead(limitMs) {
      await settledWithin(clock, limitMs, Promise.all(sources.map(source => source.firstRead)));
    },
    async close(limitMs) {
      cost?.stop();
      const stopped = Promise.all([recorder?.close(limitMs), ...sources.map(source => source.stop())]);
      await settledWithin(clock, limitMs, stopped);
    },
  };
}

function needsApi({ sources, events, deletionCost }: KubernetesFeatures): boolean {
  const watched = Object.values(sources).some(location => location.kind === 'config_map');
  return watched || events !== undefined || deletionCost !== undefined;
}

function asConfigMap({ namespace, name }: { namespace: string; name: string }, api: ApiClient | undefined) {
  if (!api) throw new TypeError('a ConfigMap can only be followed through the API');
  return { api, namespace, name };
}

/** Loaded only where it is used: it takes a second of CPU time and 90 MB. */
async function connect(clock: Clock): Promise<ApiClient> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const loadConfig = () => {
    const config = new KubeConfig();
    config.loadFromDefault();
    return config;
  };
  return new ApiClient({ loadConfig, clock });
}
