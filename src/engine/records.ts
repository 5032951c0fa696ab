// The records that make up the state: what is stored in snapshots and shown to people. Everything else in
// the engine is an index over them and can be rebuilt from them.

import type { Resources } from "./resources.ts";
import type { DisciplineName, GroupSettings, PoolSettings } from "./settings.ts";

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };
export type PoolName = Branded<"PoolName">;
export type GroupName = Branded<"GroupName">;
export type ComponentName = Branded<"ComponentName">;
export type NodeName = Branded<"NodeName">;
export type RequestId = Branded<"RequestId">;

export type Labels = Readonly<Record<string, string>>;

/** When a thing that people set was created and last changed. Absent in older records. */
export interface Lifetime {
  /** Journal position of its creation: tells it from earlier ones of the same name. */
  readonly createdSeq?: number;
  readonly createdAtMs?: number;
  readonly updatedAtMs?: number;
}

export interface PoolRecord extends Lifetime {
  readonly name: PoolName;
  readonly description: string;
  readonly labels: Labels;
  readonly discipline: DisciplineName;
  /** Units per key. A node-backed pool has none of its own: its capacity is that of its nodes (P2). */
  readonly capacity: Resources;
  readonly nodeBacked: boolean;
  readonly settings: PoolSettings;
  /** Deleted by force: takes nothing new and vanishes with its last run (P8). */
  readonly closing: boolean;
}

export interface GroupRecord {
  readonly pool: PoolName;
  readonly name: GroupName;
  readonly parent: GroupName | null;
  readonly weight: number;
  /** `null`: guarantees the sum of what its members do (P4). */
  readonly reserved: Resources | null;
  readonly limit: Resources;
  readonly mode: "fair_share" | "fifo";
  readonly settings: GroupSettings;
}

export type PolicyKind = "batch" | "training" | "service" | "sensitive" | "interactive";

export interface PolicyRecord extends Lifetime {
  readonly pool: PoolName;
  readonly component: ComponentName;
  readonly componentType: string;
  readonly priority: number;
  readonly reserved: Resources;
  readonly limit: Resources;
  readonly weight: number;
  readonly kind: PolicyKind;
  readonly maxClass: number;
  readonly group: GroupName | null;
  /** Labels of the nodes that are this policy's home (N3). */
  readonly home: Labels | null;
  /** Detached by force: admits nothing new and vanishes with its last run (P8). */
  readonly closing: boolean;
}

export type NodeState = "ready" | "draining" | "drained" | "suspect" | "down";

export interface NodeRecord {
  readonly name: NodeName;
  readonly pool: PoolName;
  readonly capacity: Resources;
  readonly labels: Labels;
  readonly topology: string;
  readonly state: NodeState;
  /** When work that still runs on a draining node is stopped; `null`: it may finish (N4). */
  readonly drainDeadlineMs: number | null;
  /** The most that its agent may offer (E1). Absent: it was registered by hand. */
  readonly enrolled?: Resources;
  /** The indices of its GPUs that may be given out, ascending; at least as many as its capacity. Absent: from 0 on. */
  readonly devices?: readonly number[];
}

export type CheckpointKind = "none" | "auto" | "manual";
export type Requeue = "never" | "on_preemption" | "on_failure";

/** What is asked for; never changes after submission (Q1). */
export interface RequestSpec {
  readonly id: RequestId;
  readonly component: ComponentName;
  readonly resources: Resources;
  readonly preemptible: boolean;
  readonly preemptionClass: number;
  readonly sensitive: boolean;
  readonly checkpoint: CheckpointKind;
  /** What the application estimates for one checkpoint; `null`: unknown. */
  readonly checkpointMs: number | null;
  readonly walltimeMs: number | null;
  readonly operation: string | null;
  readonly gang: boolean;
  readonly nodes: number;
  /** Labels that every node of the placement must have (N2). */
  readonly constraints: Labels;
  /** Only these may admit it; null: all in which its component has a policy (A1). Absent in older records. */
  readonly pools: readonly PoolName[] | null;
  /** Further attempts of all kinds together; `null`: no bound (Q3). */
  readonly retriesMax: number | null;
  readonly retryDelayMs: number;
  readonly requeue: Requeue;
  readonly waitTimeoutMs: number | null;
  /** Its own client runs it, so nobody would start a further attempt after the client is lost (L2). */
  readonly attended: boolean;
  readonly name: string;
  readonly labels: Labels;
  readonly note: string;
  readonly submittedBy: string;
  /** Where it was started, by whom and how, for people to see; absent in older records. */
  readonly origin?: RequestOrigin | null;
  /** Berth starts it itself, so only a pool with an executor admits it (J1, J3). Absent in older records. */
  readonly isJob?: boolean;
  /** It may go on where no server can be reached, if its pool permits that (E3). Absent in older records. */
  readonly runsOn?: boolean;
  /** Not in the queue before these have ended (J9). Absent in older records. */
  readonly after?: readonly Dependency[] | null;
  /** Which member of the array of its operation it is, and how many of them may be in the queue or running (J9). */
  readonly array?: { readonly index: number; readonly atOnce: number | null } | null;
}

/** `ok`: it must end well. */
export interface Dependency {
  readonly requestId: RequestId;
  readonly when: "ok" | "any";
}

export interface RequestOrigin {
  readonly host: string;
  readonly user: string;
  readonly command: string;
}

/**
 * Has a place for everything, so that what is made from it by spreading has one shape in memory, which is fast. What is
 * read of a request that has waited for long comes first, so that it is in one piece of memory.
 */
const BLANK_REQUEST: RequestSpec = {
  id: "" as RequestId,
  walltimeMs: null,
  operation: null,
  component: "" as ComponentName,
  resources: {},
  preemptible: true,
  preemptionClass: 5,
  sensitive: false,
  checkpoint: "none",
  checkpointMs: null,
  gang: false,
  nodes: 1,
  constraints: {},
  pools: null,
  retriesMax: null,
  retryDelayMs: 0,
  requeue: "on_preemption",
  waitTimeoutMs: null,
  attended: false,
  name: "",
  labels: {},
  note: "",
  submittedBy: "",
  origin: null,
  isJob: false,
  runsOn: false,
  after: null,
  array: null,
};

/** What a request is that says nothing but who asks, and for what (Q1, Q3). */
export const PLAIN_REQUEST: Omit<RequestSpec, "id" | "component" | "resources"> = BLANK_REQUEST;

export type RequestStatus =
  | "queued"
  | "allocated"
  | "preempting"
  | "released"
  | "preempted"
  | "failed"
  | "cancelled"
  | "rejected"
  | "expired";

export const TERMINAL_STATUSES: ReadonlySet<RequestStatus> = new Set([
  "released",
  "preempted",
  "failed",
  "cancelled",
  "rejected",
  "expired",
] as const);

export type PreemptionReason =
  | "priority"
  | "reclaim"
  | "backfill"
  | "fair_share"
  | "aggressive"
  | "class"
  | "sensitive"
  | "limit"
  | "overcommit"
  | "administration";

export type RejectionCode =
  | "no_policy"
  | "no_executor"
  | "unknown_key"
  | "over_capacity"
  | "over_limit"
  | "over_reserved";

/** Why one pool refuses a request (A3). `pool` is null where the component has no policy at all (A4). */
export interface RejectionReason {
  readonly pool: PoolName | null;
  readonly code: RejectionCode;
  readonly key: string | null;
  readonly asked: number;
  readonly allowed: number;
}

/** Where the stopping sequence of an allocation stands (11). */
export interface Stop {
  /** Who or what asked for it. A cancelled victim does not come back (Q5). `failure`: another part of it failed (E7). */
  readonly cause: "preemption" | "cancellation" | "walltime" | "failure";
  /** `checkpoint`: asked to save its work; `terminate`: SIGTERM was sent; `kill`: SIGKILL was sent. */
  readonly phase: "checkpoint" | "terminate" | "kill";
  /** When the phase ends if nothing is heard. */
  readonly deadlineMs: number;
  readonly progressed: boolean;
  readonly extended: boolean;
  readonly deferredMs: number;
  readonly reason: PreemptionReason | null;
  /** The waiter for which it was chosen. */
  readonly forRequest: RequestId | null;
  readonly toldAtMs: number;
}

/** Units of one node that an allocation holds, with device indices (N2). */
export interface Placement {
  readonly node: NodeName;
  readonly devices: readonly number[];
}

/** One attempt of one request that holds units. */
export interface AllocationRecord {
  /** `null`: granted outside all pools (A4). */
  readonly pool: PoolName | null;
  /** Journal position of the grant: grows with every grant, so it fences and it orders. */
  readonly token: number;
  readonly startedAtMs: number;
  /** Fills a gap before the head of its time; any head may preempt it (G4). */
  readonly opportunistic: boolean;
  readonly placement: readonly Placement[];
  readonly stop: Stop | null;
  /** Of a job only: how far its executor is (J4). */
  readonly phase?: JobPhase;
}

/** What else J4 knows follows from the stopping sequence and from the state of the nodes. */
export type JobPhase = "assigned" | "starting" | "running";

/** Capacity of one pool promised to a waiting request while its victims stop (V5). */
export interface HoldRecord {
  readonly pool: PoolName;
  /** Journal position of the decision. */
  readonly seq: number;
  readonly placement: readonly Placement[];
}

/** The changing part of a request. */
export interface RequestProgress {
  status: RequestStatus;
  /** Journal position of the submission: the place in every order, kept over all attempts (Q3) unless it asks for more (Q9). */
  seq: number;
  submittedAtMs: number;
  attempt: number;
  preemptedCount: number;
  /** The waiter that it last had to stop for; until it runs again it cannot take that one's hold (V5). */
  preemptedFor: RequestId | null;
  /** When attempts of it ended by preemption, for the bound of V6; only the last 24 hours matter. */
  preemptedAtMs: readonly number[];
  /** It was preempted too often once, which raised an alert (V6). */
  shielded: boolean;
  resume: boolean;
  lastCheckpointAtMs: number | null;
  /** Journal position of that checkpoint: of equal times the journal decides. */
  lastCheckpointSeq: number;
  furtherAttempts: number;
  /** Latest entry into the queue, or for a delayed attempt the moment it will enter. */
  queuedAtMs: number;
  /** Out of the queue until `queuedAtMs` (retries.delay), or until what `blocked` says is over. */
  delayed: boolean;
  /** Not in the queue yet: it waits for others to end, or for its turn in an array (J9). Absent in older records. */
  blocked?: boolean;
  /** Cancelled, because this request has not ended as it had to (J9). Absent in older records. */
  cancelledBecause?: RequestId | null;
  allocation: AllocationRecord | null;
  hold: HoldRecord | null;
  rejection: readonly RejectionReason[] | null;
  endedAtMs: number | null;
  /** Deleted by force while it ran: its record goes with its end (Q6). Absent in older records. */
  deletionPlanned?: boolean;
}
