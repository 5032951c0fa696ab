// Objects of Kubernetes, as far as the adapter looks at them. They come from a list of the client, where times are `Date`s, or
// from a watch, where they are text.

export interface ObjectMeta {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly creationTimestamp?: Date | string;
  readonly deletionTimestamp?: Date | string;
  readonly deletionGracePeriodSeconds?: number;
}

export interface ClusterObject {
  readonly metadata?: ObjectMeta;
}

export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
}

export type Quantities = Readonly<Record<string, string>>;

export interface Container {
  readonly name?: string;
  readonly restartPolicy?: string;
  readonly resources?: { readonly requests?: Quantities; readonly limits?: Quantities };
}

export interface ContainerStatus {
  readonly name?: string;
  readonly state?: {
    readonly waiting?: { readonly reason?: string; readonly message?: string };
    readonly running?: object;
    readonly terminated?: {
      readonly exitCode: number;
      readonly signal?: number;
      readonly reason?: string;
      readonly message?: string;
      readonly finishedAt?: Date | string;
    };
  };
}

export interface Pod extends ClusterObject {
  readonly spec?: {
    readonly nodeName?: string;
    readonly containers?: readonly Container[];
    readonly initContainers?: readonly Container[];
    readonly overhead?: Quantities;
    readonly resources?: { readonly requests?: Quantities };
  };
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly conditions?: readonly Condition[];
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

export type Job = ClusterObject;

export interface ClusterNode extends ClusterObject {
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: { readonly allocatable?: Quantities; readonly conditions?: readonly Condition[] };
}

export interface ClusterEvent extends ClusterObject {
  readonly type?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly lastTimestamp?: Date | string;
  readonly eventTime?: Date | string;
}
