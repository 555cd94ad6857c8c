/** What the instance does with Kubernetes. All of it is off unless asked for. */

import type { EnvironmentReader, TextRule } from './environment.ts';

export interface PodSettings {
  readonly namespace: string;
  readonly podName: string;
  readonly podUid?: string;
}

/** Where lease settings are that may change while the instance runs. */
export type SettingsLocation =
  | { readonly kind: 'config_map'; readonly namespace: string; readonly name: string }
  | { readonly kind: 'directory'; readonly path: string };

export interface KubernetesSettings {
  /** `tuning` is the stronger one. */
  readonly sources: { readonly chart?: SettingsLocation; readonly tuning?: SettingsLocation };
  /** Present: send Events on this pod. */
  readonly events?: PodSettings;
  /** Present: keep this pod's deletion cost. */
  readonly deletionCost?: PodSettings;
}

export function readKubernetes(env: EnvironmentReader): KubernetesSettings {
  const chart = env.optional('SETTINGS_CONFIGMAP', nameRule);
  const tuning = env.optional('SETTINGS_TUNING_CONFIGMAP', nameRule);
  if (chart !== undefined && chart === tuning) {
    env.refuse('SETTINGS_TUNING_CONFIGMAP', tuning, 'another ConfigMap than SETTINGS_CONFIGMAP');
  }
  const events = env.flag('POD_EVENTS', false);
  const deletionCost = env.flag('POD_DELETION_COST', false);
  const ofPod = events || deletionCost;
  const namespace = ofPod || chart !== undefined || tuning !== undefined ? required(env, 'POD_NAMESPACE', namespaceRule) : '';
  const pod = ofPod ? readPod(env, namespace) : undefined;
  return {
    sources: {
      ...located('chart', chart, env.optional('SETTINGS_DIR', directoryRule), namespace, env),
      ...located('tuning', tuning, env.optional('SETTINGS_TUNING_DIR', directoryRule), namespace, env),
    },
    ...(events && pod && { events: pod }),
    ...(deletionCost && pod && { deletionCost: pod }),
  };
}

function located(
  source: 'chart' | 'tuning', name: string | undefined, path: string | undefined, namespace: string, env: EnvironmentReader,
): { readonly [Source in 'chart' | 'tuning']?: SettingsLocation } {
  if (name !== undefined && path !== undefined) {
    const prefix = source === 'chart' ? 'SETTINGS' : 'SETTINGS_TUNING';
    env.refuse(`${prefix}_DIR`, path, `the only one set of itself and ${prefix}_CONFIGMAP`);
  }
  if (name !== undefined) return { [source]: { kind: 'config_map', namespace, name } };
  return path === undefined ? {} : { [source]: { kind: 'directory', path } };
}

function readPod(env: EnvironmentReader, namespace: string): PodSettings {
  const podUid = env.optional('POD_UID', uidRule);
  return { namespace, podName: required(env, 'POD_NAME', nameRule), ...(podUid !== undefined && { podUid }) };
}

/** Said once, whatever it is needed for. */
function required(env: EnvironmentReader, variable: string, rule: TextRule<string>): string {
  if (!env.has(variable)) env.refuse(variable, '', `${rule.allowed}, for what was asked of Kubernetes`);
  return env.text(variable, '', rule);
}

/** Names of objects, as Kubernetes allows them (RFC 1123). */
const nameRule: TextRule<string> = {
  parse: text => (text.length <= 253 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(text) ? text : undefined),
  allowed: 'the name of a Kubernetes object',
};

const namespaceRule: TextRule<string> = {
  parse: text => (/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text) ? text : undefined),
  allowed: 'the name of a Kubernetes namespace',
};

const uidRule: TextRule<string> = {
  parse: text => (/^[\w-]{1,128}$/.test(text) ? text : undefined),
  allowed: 'the UID of the pod',
};

const directoryRule: TextRule<string> = {
  parse: text => (text.startsWith('/') && !text.includes('\u0000') ? text : undefined),
  allowed: 'the absolute path of a directory',
};
