/** Rendered manifests, read and held against the schemas beside this file and against what the runtime itself accepts. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Ajv } from 'ajv';
import type { ValidateFunction } from 'ajv';
import { parseAllDocuments } from 'yaml';

import { runHelm } from '../../support/helm.ts';
import type { HelmMajor, Rendered } from '../../support/helm.ts';

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

export type Values = Readonly<Record<string, unknown>>;

export interface RenderOptions {
  readonly major?: HelmMajor;
  readonly release?: string;
  readonly kubeVersion?: string;
}

export const chart = 'charts/signals-runtime';

export function template(values: Values, { major = 4, release = 'demo', kubeVersion = '1.35.0' }: RenderOptions = {}): Rendered {
  const args = ['template', release, chart, '--namespace', 'agents', '--kube-version', kubeVersion, '--values', '-'];
  return runHelm(args, { major, input: JSON.stringify(values) });
}

/** Throws with Helm's own words when it refuses. */
export function render(values: Values, options: RenderOptions = {}): Manifest[] {
  const { ok, stdout, stderr } = template(values, options);
  if (!ok) throw new Error(stderr);
  return documentsOf(stdout);
}

/** Keys that are there twice are errors. */
export function documentsOf(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map(document => {
      if (document.errors.length > 0) throw new Error(document.errors.map(String).join('\n'));
      return document.toJS() as Manifest | null;
    })
    .filter(document => document !== null);
}

export function all(manifests: readonly Manifest[], kind: string): Manifest[] {
  return manifests.filter(manifest => manifest.kind === kind);
}

/** Throws unless there is exactly one. */
export function one(manifests: readonly Manifest[], kind: string, name?: string): Manifest {
  const found = all(manifests, kind).filter(manifest => name === undefined || manifest.metadata.name === name);
  const [first] = found;
  if (!first || found.length > 1) throw new Error(`${found.length} times ${kind} ${name ?? ''}`);
  return first;
}

interface SchemaFile {
  readonly kinds: Readonly<Record<string, string>>;
  readonly schemas: Readonly<Record<string, object>>;
}

/** Answers what is wrong with a manifest; fields that its schema does not know are wrong. */
export function schemaChecker(): (manifest: Manifest) => string[] {
  const files = ['kubernetes', 'custom'].map(
    name => JSON.parse(readFileSync(join(import.meta.dirname, 'schemas', `${name}.json`), 'utf8')) as SchemaFile,
  );
  const $defs = Object.assign({}, ...files.map(file => file.schemas)) as object;
  const ajv = new Ajv({ strict: false, allErrors: true });
  ajv.addSchema({ $id: 'kubernetes', $defs });
  const kinds = Object.assign({}, ...files.map(file => file.kinds)) as Record<string, string>;
  const compiled = new Map<string, ValidateFunction>();
  return manifest => {
    const kind = `${manifest.apiVersion} ${manifest.kind}`;
    const name = kinds[kind];
    if (name === undefined) return [`there is no schema for ${kind}`];
    const validate = compiled.get(name) ?? ajv.compile({ $ref: `kubernetes#/$defs/${name}` });
    compiled.set(name, validate);
    const named = `${kind} ${manifest.metadata.name}`;
    if (validate(manifest)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${named}${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  };
}

export interface EnvironmentVariable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly secretKeyRef?: { readonly name: string; readonly key: string };
    readonly fieldRef?: { readonly fieldPath: string };
  };
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly env?: readonly EnvironmentVariable[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string; readonly subPath?: string }[];
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly lifecycle?: unknown;
  readonly startupProbe?: unknown;
}

export interface PodSpec {
  readonly containers: readonly Container[];
  readonly volumes?: readonly Readonly<Record<string, unknown>>[];
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly terminationGracePeriodSeconds?: number;
  readonly automountServiceAccountToken?: boolean;
  readonly enableServiceLinks?: boolean;
  readonly serviceAccountName?: string;
}

export interface DeploymentSpec {
  readonly replicas?: number;
  readonly strategy: { readonly type: string };
  readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
  readonly template: { readonly metadata: Manifest['metadata']; readonly spec: PodSpec };
}

export function deployment(manifests: readonly Manifest[]): DeploymentSpec {
  return one(manifests, 'Deployment')['spec'] as DeploymentSpec;
}

export function runtimeContainer(manifests: readonly Manifest[]): Container {
  const container = deployment(manifests).template.spec.containers.find(({ name }) => name === 'runtime');
  if (!container) throw new Error('no container is called runtime');
  return container;
}

/** As the process would see it: what comes from elsewhere stands in as `given` says, by variable. */
export function environmentOf(container: Container, given: Readonly<Record<string, string>> = {}): Record<string, string> {
  const fields: Record<string, string> = { POD_NAME: 'demo-0', POD_NAMESPACE: 'agents', POD_UID: 'f3d0', NODE_NAME: 'node-1' };
  return Object.fromEntries(
    (container.env ?? []).map(({ name, value }) => [name, value ?? given[name] ?? fields[name] ?? `secret-of-${name}`]),
  );
}

/** What the `restricted` Pod Security Standard would say (https://kubernetes.io/docs/concepts/security/pod-security-standards/). */
export function restrictedViolations({ containers, volumes = [], securityContext = {} }: PodSpec): string[] {
  const allowed = ['configMap', 'csi', 'downwardAPI', 'emptyDir', 'ephemeral', 'persistentVolumeClaim', 'projected', 'secret'];
  const wrong = volumes.filter(volume => !Object.keys(volume).some(key => allowed.includes(key))).map(volume => `volume ${String(volume['name'])}`);
  if (JSON.stringify(securityContext['seccompProfile']) !== '{"type":"RuntimeDefault"}') wrong.push('seccompProfile');
  if (securityContext['runAsUser'] === 0) wrong.push('runAsUser');
  for (const { name, securityContext: own = {} } of containers) {
    if (own['allowPrivilegeEscalation'] !== false) wrong.push(`${name}: allowPrivilegeEscalation`);
    if (own['runAsNonRoot'] !== true && securityContext['runAsNonRoot'] !== true) wrong.push(`${name}: runAsNonRoot`);
    if (JSON.stringify(own['capabilities']) !== '{"drop":["ALL"]}') wrong.push(`${name}: capabilities`);
    if (own['privileged'] === true) wrong.push(`${name}: privileged`);
  }
  return wrong;
}
