/**
 * Makes the JSON files beside it: the schemas of what the chart renders, from the sources that define them. Run by hand when
 * those move on:
 *
 *     go mod download k8s.io/kubernetes@v1.35.4 github.com/prometheus-operator/prometheus-operator@v0.85.0 \
 *       github.com/kedacore/keda/v2@v2.21.0
 *     node test/integration/chart/schemas/generate.ts "$(go env GOMODCACHE)"
 *
 * Descriptions are left out, and a field that a schema does not name is an error: the API server drops those without a word.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { parse } from 'yaml';

type Schema = Record<string, unknown>;

const kubernetes = 'k8s.io/kubernetes@v1.35.4/api/openapi-spec/v3';
const operator = 'github.com/prometheus-operator/prometheus-operator@v0.85.0/example/prometheus-operator-crd';
const keda = 'github.com/kedacore/keda/v2@v2.21.0/config/crd/bases';

const builtIn: Readonly<Record<string, readonly string[]>> = {
  api__v1: ['ConfigMap', 'Pod', 'Secret', 'Service', 'ServiceAccount'],
  apis__apps__v1: ['Deployment'],
  apis__autoscaling__v2: ['HorizontalPodAutoscaler'],
  'apis__networking.k8s.io__v1': ['NetworkPolicy'],
  apis__policy__v1: ['PodDisruptionBudget'],
  'apis__rbac.authorization.k8s.io__v1': ['Role', 'RoleBinding'],
};

const custom: readonly string[] = [
  `${operator}/monitoring.coreos.com_podmonitors.yaml`,
  `${operator}/monitoring.coreos.com_prometheusrules.yaml`,
  `${operator}/monitoring.coreos.com_servicemonitors.yaml`,
  `${keda}/keda.sh_scaledobjects.yaml`,
];

/** Schemas by name, and which of them is for which `apiVersion kind`. */
interface SchemaFile {
  readonly kinds: Record<string, string>;
  readonly schemas: Record<string, unknown>;
}

interface OpenApi {
  readonly components: { readonly schemas: Record<string, Schema> };
}

interface CustomResourceDefinition {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: Schema } }[];
  };
}

interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

function main(modules: string): void {
  const directory = import.meta.dirname;
  write(join(directory, 'kubernetes.json'), fromOpenApi(join(modules, kubernetes)));
  write(join(directory, 'custom.json'), fromDefinitions(modules));
}

function fromOpenApi(directory: string): SchemaFile {
  const file: SchemaFile = { kinds: {}, schemas: {} };
  for (const [group, kinds] of Object.entries(builtIn)) {
    const { schemas } = (JSON.parse(readFileSync(join(directory, `${group}_openapi.json`), 'utf8')) as OpenApi).components;
    for (const [name, schema] of Object.entries(schemas)) {
      const [gvk] = (schema['x-kubernetes-group-version-kind'] ?? []) as GroupVersionKind[];
      if (!gvk || !kinds.includes(gvk.kind)) continue;
      file.kinds[`${gvk.group === '' ? '' : `${gvk.group}/`}${gvk.version} ${gvk.kind}`] = name;
      include(name, schemas, file);
    }
  }
  return file;
}

function include(name: string, from: Record<string, Schema>, file: SchemaFile): void {
  const schema = from[name];
  if (file.schemas[name] !== undefined || !schema) return;
  const strict = strictly(schema);
  file.schemas[name] = strict;
  for (const [, reference] of JSON.stringify(strict).matchAll(/"#\/\$defs\/([^"]+)"/g)) include(reference ?? '', from, file);
}

function fromDefinitions(modules: string): SchemaFile {
  const file: SchemaFile = { kinds: {}, schemas: {} };
  for (const path of custom) {
    const { spec } = parse(readFileSync(join(modules, path), 'utf8')) as CustomResourceDefinition;
    for (const { name, schema } of spec.versions) {
      const id = `${spec.group}.${name}.${spec.names.kind}`;
      file.kinds[`${spec.group}/${name} ${spec.names.kind}`] = id;
      const properties = { ...(schema.openAPIV3Schema['properties'] as Schema) };
      // Kubernetes' own, which a definition does not repeat.
      properties['metadata'] = { $ref: '#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta' };
      file.schemas[id] = strictly({ ...schema.openAPIV3Schema, properties });
    }
  }
  return file;
}

/** As JSON Schema, without what is only for people or for the server. */
function strictly(value: unknown, isNames = false): unknown {
  if (Array.isArray(value)) return value.map(item => strictly(item));
  if (typeof value !== 'object' || value === null) return value;
  const schema = value as Schema;
  const kept = Object.entries(schema).filter(([key]) => isNames || !(key.startsWith('x-kubernetes') || ignored.includes(key)));
  const result = Object.fromEntries(kept.map(([key, child]) => [key, childOf(key, child, isNames)]));
  const open = schema['additionalProperties'] !== undefined || schema['x-kubernetes-preserve-unknown-fields'] === true;
  if (!isNames && schema['properties'] !== undefined && !open) result['additionalProperties'] = false;
  // Written as a number or as text; the definitions say it in a way of their own.
  if (!isNames && schema['x-kubernetes-int-or-string'] === true) delete result['type'];
  // Go's way to ignore case, which is no regular expression here.
  if (!isNames && typeof result['pattern'] === 'string' && result['pattern'].includes('(?i)')) delete result['pattern'];
  return result;
}

const ignored = ['description', 'default', 'format', 'example'];

function childOf(key: string, child: unknown, isNames: boolean): unknown {
  if (!isNames && key === '$ref' && typeof child === 'string') return child.replace('#/components/schemas/', '#/$defs/');
  return strictly(child, !isNames && key === 'properties');
}

function write(path: string, file: SchemaFile): void {
  // One schema a line, sorted: a diff shows which changed.
  const sorted = Object.entries(file.schemas).sort(([a], [b]) => (a < b ? -1 : 1));
  const schemas = sorted.map(([name, schema]) => `${JSON.stringify(name)}: ${JSON.stringify(schema)}`).join(',\n');
  writeFileSync(path, `{"kinds": ${JSON.stringify(file.kinds)},\n"schemas": {\n${schemas}\n}}\n`);
}

main(process.argv[2] ?? '');
