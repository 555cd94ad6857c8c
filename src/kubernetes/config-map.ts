/** ConfigMaps as they come over the wire: nothing is taken on trust. */

export type ConfigMapValues = Readonly<Record<string, string>>;

export interface SeenConfigMap {
  readonly values: ConfigMapValues;
}

export interface ConfigMapList {
  /** Where a watch goes on from. */
  readonly resourceVersion: string;
  readonly found: SeenConfigMap | undefined;
}

export type WatchLine =
  | { readonly type: 'seen'; readonly configMap: SeenConfigMap }
  | { readonly type: 'deleted' }
  | { readonly type: 'bookmark' }
  /** `code` 410: the server no longer knows where we were. */
  | { readonly type: 'error'; readonly code: number | undefined; readonly message: string };

/** `undefined` when it is not the answer to a list. */
export function parseList(answer: unknown, name: string): ConfigMapList | undefined {
  if (!isObject(answer) || !isObject(answer['metadata']) || !Array.isArray(answer['items'])) return undefined;
  const resourceVersion = answer['metadata']['resourceVersion'];
  if (typeof resourceVersion !== 'string' || resourceVersion === '') return undefined;
  const item: unknown = answer['items'].find(candidate => nameOf(candidate) === name);
  if (item === undefined) return { resourceVersion, found: undefined };
  const found = parseConfigMap(item, name);
  return found && { resourceVersion, found };
}

/** `undefined` when it is not a line of a watch on that ConfigMap. */
export function parseWatchLine(line: string, name: string): WatchLine | undefined {
  const event = parseJson(line);
  if (!isObject(event)) return undefined;
  const { type, object } = event;
  if (type === 'BOOKMARK') return { type: 'bookmark' };
  if (type === 'ERROR') return errorOf(object);
  const configMap = parseConfigMap(object, name);
  if (!configMap) return undefined;
  if (type === 'DELETED') return { type: 'deleted' };
  return type === 'ADDED' || type === 'MODIFIED' ? { type: 'seen', configMap } : undefined;
}

export function sameValues(one: ConfigMapValues, other: ConfigMapValues): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every(name => one[name] === other[name]);
}

function parseConfigMap(object: unknown, name: string): SeenConfigMap | undefined {
  if (!isObject(object) || nameOf(object) !== name) return undefined;
  const data = object['data'] ?? {};
  if (!isObject(data)) return undefined;
  const values: Record<string, string> = {};
  for (const [key, value] of Object.entries(data)) {
    if (typeof value !== 'string') return undefined;
    values[key] = value;
  }
  return { values };
}

function errorOf(status: unknown): WatchLine {
  const { code, message } = isObject(status) ? status : {};
  return {
    type: 'error',
    code: typeof code === 'number' ? code : undefined,
    message: typeof message === 'string' ? message.slice(0, 300) : 'without a message',
  };
}

function nameOf(object: unknown): unknown {
  return isObject(object) && isObject(object['metadata']) ? object['metadata']['name'] : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // The caller counts it.
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
