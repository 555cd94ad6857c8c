/** Settings that change while pods run: by hand, rightly and wrongly, and by upgrades (cases 45, 46 and 47). */

import { afterEach, expect, test } from 'vitest';

import { until } from '../../support/until.ts';
import { get } from '../access.ts';
import { images } from '../images.ts';
import type { Pod } from '../kube-types.ts';
import { imageValues, Release, workerValues } from '../release.ts';

const ttl = 'MASTRA_AGENT_THREAD_LEASE_TTL_MS';

let release: Release | undefined;
afterEach(async () => await release?.destroy());

async function onEach(pods: readonly Pod[], what: string, holds: (pod: Pod) => Promise<boolean>, limitMs = 30_000): Promise<void> {
  for (const pod of pods) await until(`${what} on ${pod.metadata.name}`, () => holds(pod), limitMs, 200);
}

function ttlIs(made: Release, value: number, source: string): (pod: Pod) => Promise<boolean> {
  return async pod => {
    const { effective } = await made.settingsOf(pod);
    return effective[ttl]?.value === value && effective[ttl]?.source === source;
  };
}

test('an edit takes effect on every pod, a wrong one on none; both can be seen, and upgrades leave them alone', async () => {
  const made = (release = await Release.install('settings', workerValues({ settings: { ttlMs: 20_000 } })));
  const pods = await made.readyPods(3);
  await onEach(pods, 'the chart’s value', ttlIs(made, 20_000, 'chart'));

  await made.editTuning({ [ttl]: '30000' });
  await onEach(pods, 'the edit is in effect', ttlIs(made, 30_000, 'tuning'));
  await onEach(pods, 'it is on the metrics', async pod => /signals_lease_ttl_seconds\{?[^}\n]*\}? 30\n/.test(await made.ask(pod, '/metrics')));

  await made.editTuning({ [ttl]: 'half a minute' });
  await onEach(pods, 'the refusal can be seen', async pod => (await made.settingsOf(pod)).lastRefusal?.source === 'tuning');
  await onEach(pods, 'and the last good one stays', ttlIs(made, 30_000, 'tuning'));
  await onEach(pods, 'it is counted', async pod => /signals_config_reloads_total\{[^}\n]*outcome="rejected"[^}\n]*\} 1\n/.test(await made.ask(pod, '/metrics')));
  const told = async (reason: string) => (await made.events()).filter(event => event.reason === reason).map(event => event.involvedObject.name);
  for (const { metadata } of pods) {
    await until(`${metadata.name} has told of both`, async () => {
      return (await told('SettingsReloaded')).includes(metadata.name) && (await told('SettingsRefused')).includes(metadata.name);
    });
  }
  const refusal = (await made.events()).find(event => event.reason === 'SettingsRefused');
  expect(refusal).toMatchObject({ type: 'Warning', involvedObject: { kind: 'Pod' } });
  expect(refusal?.message).toContain('half a minute');

  await made.editTuning({ [ttl]: '25000' });
  await onEach(pods, 'a right one after the wrong one', ttlIs(made, 25_000, 'tuning'));
  // The chart's own value changes beneath it, and nothing is restarted for that.
  await made.upgrade(workerValues({ settings: { ttlMs: 40_000 } }));
  await made.rolledOut();
  const data = async () => (await get<{ data?: object }>('configmap', made.tuning, '-n', made.namespace)).data;
  expect(await data()).toEqual({ [ttl]: '25000' });
  await onEach(pods, 'the edit outlives the upgrade', ttlIs(made, 25_000, 'tuning'));
  await made.editTuning({ [ttl]: null });
  await onEach(pods, 'without it the chart’s new value counts', ttlIs(made, 40_000, 'chart'));

  // Neither a drain that the grace period would cut off, nor a log level, restarts anything; the one is refused, the other counts.
  await made.editTuning({ MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: '25001', LOG_LEVEL: 'debug' });
  const drainRefused = async (pod: Pod) => (await made.settingsOf(pod)).lastRefusal?.problems[0]?.includes('TERMINATION_GRACE_MS') ?? false;
  await onEach(pods, 'the long drain is refused', drainRefused);
  await made.editTuning({ MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: '25000' });
  await onEach(pods, 'the log level counts', async pod => (await made.settingsOf(pod)).effective['LOG_LEVEL']?.value === 'debug');
  await made.upgrade(workerValues({ settings: { ttlMs: 40_000 }, server: { logLevel: 'warn' } }));
  await made.rolledOut();
  expect((await made.readyPods(3)).map(({ metadata }) => metadata.uid).toSorted()).toEqual(pods.map(({ metadata }) => metadata.uid).toSorted());
  await made.editTuning({ MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS: null, LOG_LEVEL: null });
  await onEach(pods, 'without the edit the chart’s level counts', async pod => (await made.settingsOf(pod)).effective['LOG_LEVEL']?.value === 'warn');

  // One that pods read at start replaces them, and they begin with the edit.
  await made.editTuning({ [ttl]: '26000' });
  await made.upgrade(workerValues({ settings: { ttlMs: 40_000 }, image: imageValues(images.nextRuntime) }));
  await made.rolledOut();
  const after = await made.readyPods(3);
  await onEach(after, 'the edit counts in new pods', ttlIs(made, 26_000, 'tuning'));
  expect(await data()).toEqual({ [ttl]: '26000' });
  expect(after.filter(({ metadata: { uid } }) => pods.some(pod => pod.metadata.uid === uid))).toEqual([]);
  expect(made.watch.lives().filter(({ restarts }) => restarts > 0)).toEqual([]);
});

test('as mounted directories edits reach every pod too, without any permission', async () => {
  const values = workerValues({ settings: { source: 'mount', ttlMs: 20_000 }, events: { enabled: false } });
  const made = (release = await Release.install('settings-mounted', values));
  const pods = await made.readyPods(3);
  await onEach(pods, 'the chart’s value', ttlIs(made, 20_000, 'chart'));
  await made.editTuning({ [ttl]: '30000' });
  // The kubelet looks from time to time.
  await onEach(pods, 'the edit is in effect', ttlIs(made, 30_000, 'tuning'), 180_000);
  await made.editTuning({ [ttl]: '1' });
  await onEach(pods, 'the refusal can be seen', async pod => (await made.settingsOf(pod)).lastRefusal?.source === 'tuning', 180_000);
  await onEach(pods, 'and the last good one stays', ttlIs(made, 30_000, 'tuning'));
  expect((await get<{ items: object[] }>('roles,rolebindings', '-n', made.namespace)).items).toEqual([]);
});
