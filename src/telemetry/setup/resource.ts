/** Who is speaking: on every span and metric, and in `target_info`. */

import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import type { Resource } from '@opentelemetry/resources';

import { resourceAttributes, textOf } from './environment.ts';
import type { Environment } from './environment.ts';

export interface Identity {
  readonly serviceName: string;
  readonly instanceId: string;
  readonly version: string;
}

/** What the chart passes down from the pod, and what the semantic conventions call it. */
const fromPod = {
  POD_NAME: 'k8s.pod.name',
  POD_UID: 'k8s.pod.uid',
  POD_NAMESPACE: 'k8s.namespace.name',
  NODE_NAME: 'k8s.node.name',
  DEPLOYMENT_NAME: 'k8s.deployment.name',
  CLUSTER_NAME: 'k8s.cluster.name',
} as const;

/** `OTEL_SERVICE_NAME` beats `OTEL_RESOURCE_ATTRIBUTES`, which beats what we know; the instance id is always ours. */
export function createResource(identity: Identity, environment: Environment): Resource {
  const pod = Object.entries(fromPod).flatMap(([variable, name]) => {
    const value = textOf(environment[variable]);
    return value === undefined ? [] : [[name, value] as const];
  });
  const given = resourceAttributes(environment);
  return defaultResource().merge(
    resourceFromAttributes({
      'service.version': identity.version,
      ...Object.fromEntries(pod),
      ...given,
      'service.name': textOf(environment['OTEL_SERVICE_NAME']) ?? given['service.name'] ?? identity.serviceName,
      'service.instance.id': identity.instanceId,
    }),
  );
}
