// What a caller asks of the engine, in the imperative. A command may be refused; then nothing changes.

import type { EndFacts } from "./events.ts";
import type {
  ComponentName,
  GroupName,
  JobPhase,
  Labels,
  NodeName,
  PolicyKind,
  PoolName,
  RequestId,
  RequestSpec,
} from "./records.ts";
import type { Resources } from "./resources.ts";
import type { DisciplineName, GroupSettings, PoolSettings } from "./settings.ts";

export interface GroupChange {
  readonly name: GroupName;
  readonly parent?: GroupName | null;
  readonly weight?: number;
  readonly reserved?: Resources | null;
  readonly limit?: Resources;
  readonly mode?: "fair_share" | "fifo";
  readonly settings?: GroupSettings;
}

export interface PolicyChange {
  readonly pool: PoolName;
  readonly component: ComponentName;
  readonly componentType?: string;
  readonly priority?: number;
  readonly reserved?: Resources;
  readonly limit?: Resources;
  readonly weight?: number;
  readonly kind?: PolicyKind;
  readonly maxClass?: number;
  readonly group?: GroupName | null;
  readonly home?: Labels | null;
}

export interface NodeChange {
  readonly name: NodeName;
  readonly pool?: PoolName;
  readonly capacity?: Resources;
  readonly labels?: Labels;
  readonly topology?: string;
  /** The most that its agent may offer (E1). */
  readonly enrolled?: Resources;
  /** The indices of its GPUs that may be given out; `null`: from 0 on. */
  readonly devices?: readonly number[] | null;
  /** It was enrolled, and nobody has heard of it yet. */
  readonly isDown?: boolean;
}

/** What a holder says about the end of its run. */
export type Outcome = "succeeded" | "failed" | "stopped";

/** An end of a run that is known at the very instant of a tick (conformance: ends of runs come first). */
export interface EndReport {
  readonly requestId: RequestId;
  readonly outcome: Outcome | "lost";
}

/** Why no holder has to confirm the end of a grant before its units come free (L2). */
export type NoHolder = "not_taken_up" | "declared_lost";

export type CheckpointReport =
  | { readonly report: "done" }
  | { readonly report: "progress" }
  | { readonly report: "defer"; readonly deferMs: number };

/** What of a request can be changed while it waits (Q9). */
export type RequestChange = Partial<
  Pick<
    RequestSpec,
    | "resources"
    | "nodes"
    | "pools"
    | "preemptionClass"
    | "walltimeMs"
    | "waitTimeoutMs"
    | "preemptible"
    | "checkpoint"
    | "checkpointMs"
    | "requeue"
    | "retriesMax"
    | "retryDelayMs"
    | "labels"
    | "note"
  >
>;

export type Command =
  | {
      readonly kind: "createPool";
      readonly name: PoolName;
      /** Absent: the pool is node-backed (P2). */
      readonly capacity?: Resources;
      readonly discipline?: DisciplineName;
      readonly description?: string;
      readonly labels?: Labels;
      readonly settings?: Partial<PoolSettings>;
      readonly groups?: readonly GroupChange[];
    }
  | {
      readonly kind: "updatePool";
      readonly name: PoolName;
      /** Merged by key; 0 removes the key (P2). */
      readonly capacity?: Resources;
      readonly description?: string;
      readonly labels?: Labels;
      readonly settings?: Partial<PoolSettings>;
      /** Groups to add or to change, by name. */
      readonly groups?: readonly GroupChange[];
      readonly force?: boolean;
    }
  | { readonly kind: "deletePool"; readonly name: PoolName; readonly force?: boolean }
  | {
      readonly kind: "createGroup";
      readonly pool: PoolName;
      readonly group: GroupChange;
      readonly force?: boolean;
    }
  | {
      readonly kind: "updateGroup";
      readonly pool: PoolName;
      readonly group: GroupChange;
      readonly force?: boolean;
    }
  | {
      readonly kind: "deleteGroup";
      readonly pool: PoolName;
      readonly name: GroupName;
      readonly force?: boolean;
    }
  | { readonly kind: "attachPolicy"; readonly policy: PolicyChange; readonly force?: boolean }
  | { readonly kind: "updatePolicy"; readonly policy: PolicyChange; readonly force?: boolean }
  | {
      readonly kind: "detachPolicy";
      readonly pool: PoolName;
      readonly component: ComponentName;
      readonly force?: boolean;
    }
  /** Registers a node, or replaces what is given of a known one and makes it ready. */
  | { readonly kind: "putNode"; readonly node: NodeChange }
  /** `drain` may carry a deadline after which running work is stopped by section 11 (N4). */
  | { readonly kind: "drainNode"; readonly name: NodeName; readonly deadlineMs?: number }
  | { readonly kind: "undrainNode"; readonly name: NodeName }
  | { readonly kind: "suspectNode"; readonly name: NodeName }
  | { readonly kind: "loseNode"; readonly name: NodeName }
  | { readonly kind: "removeNode"; readonly name: NodeName; readonly force?: boolean }
  | { readonly kind: "changeServerSettings"; readonly unmanaged: "reject" | "allow" }
  | {
      readonly kind: "submitRequest";
      readonly spec: RequestSpec;
      /** It was to wait for this one, which is no longer in memory and has not ended as it had to (J9). */
      readonly impossible?: RequestId;
    }
  | { readonly kind: "updateRequest"; readonly requestId: RequestId; readonly change: RequestChange }
  | { readonly kind: "cancelRequest"; readonly requestId: RequestId; readonly noHolder?: NoHolder }
  | {
      readonly kind: "deleteRequest";
      readonly requestId: RequestId;
      readonly force?: boolean;
      readonly noHolder?: NoHolder;
    }
  /** Requests that ended before this time leave the memory; their records stay in the store. */
  | { readonly kind: "forgetEnded"; readonly endedBeforeMs: number }
  /** The holder says how its run ended. A token that is not the current one changes nothing (L1). */
  | {
      readonly kind: "reportEnd";
      readonly requestId: RequestId;
      readonly token?: number;
      readonly outcome: Outcome;
      readonly end?: EndFacts;
    }
  | {
      readonly kind: "reportCheckpoint";
      readonly requestId: RequestId;
      readonly token?: number;
      readonly checkpoint: CheckpointReport;
    }
  /** The executor says how far a job is (J4). What was said before, or goes back, changes nothing. */
  | {
      readonly kind: "reportPhase";
      readonly requestId: RequestId;
      readonly token: number;
      readonly phase: JobPhase;
    }
  /** A part of a job on several nodes failed: the others are stopped, and their end is a failure (E7). */
  | { readonly kind: "failPart"; readonly requestId: RequestId; readonly token: number }
  /** The lease rules (13) say that the holder, or the client of a waiting attended request, is gone. */
  | {
      readonly kind: "loseHolder";
      readonly requestId: RequestId;
      readonly token?: number;
      /** Its grant was never taken up: the same request is not granted again (L2). */
      readonly untaken?: boolean;
    }
  /** Time itself: all timers up to now fire; ends known at this instant come first. */
  | { readonly kind: "tick"; readonly ends?: readonly EndReport[] };

export type CommandOf<Kind extends Command["kind"]> = Extract<Command, { kind: Kind }>;
