/** The little of Kubernetes' objects that scenarios look at. */

export interface Pod {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
    readonly annotations?: Record<string, string>;
  };
  readonly spec: { readonly nodeName?: string };
  readonly status: {
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

export interface ContainerStatus {
  readonly name: string;
  readonly containerID?: string;
  readonly restartCount: number;
  readonly state: { readonly terminated?: Terminated };
  readonly lastState?: { readonly terminated?: Terminated };
}

export interface Terminated {
  readonly exitCode: number;
  readonly reason: string;
}

export interface Service {
  readonly spec: { readonly clusterIP: string };
}

export interface Event {
  readonly reason: string;
  readonly type: string;
  readonly note?: string;
  readonly message?: string;
  readonly involvedObject: { readonly kind: string; readonly name: string };
}

export interface List<T> {
  readonly items: readonly T[];
}

export function isReady({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && (status.conditions ?? []).some(({ type, status: is }) => type === 'Ready' && is === 'True');
}
