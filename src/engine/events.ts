// What happened, in the past tense. The journal is a list of these, and `evolve` folds them into the state.

import type {
  ComponentName,
  GroupName,
  GroupRecord,
  JobPhase,
  NodeName,
  NodeRecord,
  NodeState,
  Placement,
  PolicyRecord,
  PoolName,
  PoolRecord,
  PreemptionReason,
  RejectionReason,
  RequestId,
  RequestSpec,
  RequestStatus,
  Stop,
} from "./records.ts";
import { compareIds, type Resources } from "./resources.ts";

/** How an attempt ended. */
export type AttemptOutcome = "succeeded" | "failed" | "preempted" | "cancelled" | "lost" | "walltime";

/** What is known about the end of an attempt beside its outcome. */
export interface EndFacts {
  /** When it happened, as its holder says; the report may have come later. Absent: at the time of the event. */
  readonly atMs?: number;
  readonly exitCode?: number;
  /** Such as SIGSEGV. */
  readonly signal?: string;
  readonly cause?: EndCause;
  readonly message?: string;
}

/** The first five are reported by holders and executors, the others follow from the lease rules (L2). */
export type EndCause =
  | "oom"
  | "interrupted"
  | "wrapper_killed"
  | "start_failed"
  | "walltime"
  | "not_taken_up"
  | "holder_silent"
  | "declared_lost";

export type HoldEnd =
  | "granted_elsewhere"
  | "cancelled"
  | "expired"
  | "not_admitted"
  | "blocked_by_limit"
  | "taken_over"
  | "not_covered"
  | "node_lost"
  | "request_changed";

/** A kind of allocation that a preemption decision looked at, with its numbers (V7). */
export interface ConsideredKind {
  readonly component: ComponentName;
  readonly priority: number;
  readonly preemptionClass: number;
  readonly resources: Resources;
  readonly count: number;
  readonly permitted: number;
  /** The rule that permits them, or that forbids the others. */
  readonly rule: string;
  /** What 10.4 says about the latest of them, in hundredths of a minute; only in discipline `class`. */
  readonly cost?: number;
}

/** A fixed order of kinds: the indexes that they come from have none (D2). */
export function byKind(a: ConsideredKind, b: ConsideredKind): number {
  return (
    compareIds(a.component, b.component) ||
    a.priority - b.priority ||
    a.preemptionClass - b.preemptionClass ||
    compareIds(a.rule, b.rule) ||
    a.count - b.count ||
    a.permitted - b.permitted ||
    (a.cost ?? 0) - (b.cost ?? 0) ||
    compareIds(JSON.stringify(a.resources), JSON.stringify(b.resources))
  );
}

export interface ChosenVictim {
  readonly requestId: RequestId;
  readonly reason: PreemptionReason;
  readonly stop: Stop;
  /** What 10.4 says about it, in hundredths of a minute; only in discipline `class`. */
  readonly cost?: number;
}

export type Event =
  | { readonly kind: "poolSet"; readonly pool: PoolRecord }
  | { readonly kind: "poolDeleted"; readonly name: PoolName }
  | { readonly kind: "groupSet"; readonly group: GroupRecord }
  | { readonly kind: "groupDeleted"; readonly pool: PoolName; readonly name: GroupName }
  | { readonly kind: "policySet"; readonly policy: PolicyRecord }
  | { readonly kind: "policyDetached"; readonly pool: PoolName; readonly component: ComponentName }
  | { readonly kind: "nodeSet"; readonly node: NodeRecord }
  | {
      readonly kind: "nodeStateChanged";
      readonly name: NodeName;
      readonly state: NodeState;
      /** Only with `draining`: when work that still runs there is stopped. */
      readonly drainDeadlineMs?: number | null;
    }
  | { readonly kind: "nodeRemoved"; readonly name: NodeName }
  | { readonly kind: "serverSettingsChanged"; readonly unmanaged: "reject" | "allow" }
  | {
      readonly kind: "requestSubmitted";
      readonly spec: RequestSpec;
      /** Present: it is not in the queue yet (J9). */
      readonly blocked?: true;
      readonly atMs: number;
    }
  /** It says something else now. Who asks for more stands where it would if it had asked just now (Q9). */
  | {
      readonly kind: "requestChanged";
      readonly requestId: RequestId;
      readonly spec: RequestSpec;
      readonly asksForMore: boolean;
      readonly atMs: number;
    }
  /** Refused at submission, or no longer admitted by any pool (A3, P9). */
  | {
      readonly kind: "requestRejected";
      readonly requestId: RequestId;
      readonly reasons: readonly RejectionReason[];
      readonly atMs: number;
    }
  /** A delayed attempt enters the queue (Q3), or what was blocked (J9). */
  | { readonly kind: "requestEntered"; readonly requestId: RequestId; readonly atMs: number }
  | {
      readonly kind: "requestAllocated";
      readonly requestId: RequestId;
      readonly pool: PoolName | null;
      readonly opportunistic: boolean;
      readonly placement: readonly Placement[];
      readonly atMs: number;
    }
  /** Covered by what is free and what is stopping anyway: promised without victims (V1). */
  | {
      readonly kind: "holdTaken";
      readonly requestId: RequestId;
      readonly pool: PoolName;
      readonly placement: readonly Placement[];
      readonly atMs: number;
    }
  | {
      readonly kind: "holdEnded";
      readonly requestId: RequestId;
      readonly why: HoldEnd;
      /** Who took the units over (V6: that is a displacement). */
      readonly by: RequestId | null;
      readonly atMs: number;
    }
  /** One decision: these stop, and the waiter holds what they leave (V5, V7). No waiter: limits, drains, administration. */
  | {
      readonly kind: "preemptionDecided";
      readonly pool: PoolName;
      readonly waiter: RequestId | null;
      readonly shortage: Resources;
      readonly victims: readonly ChosenVictim[];
      readonly considered: readonly ConsideredKind[];
      /** What the waiter is worth (10.5), in hundredths of a minute; only in discipline `class`. */
      readonly value?: number;
      readonly placement: readonly Placement[];
      readonly atMs: number;
    }
  /** Cancellation or walltime: the run was asked to stop (Q5, Q7), or the next phase of section 11 began. */
  | {
      readonly kind: "stopChanged";
      readonly requestId: RequestId;
      readonly stop: Stop;
      readonly atMs: number;
    }
  /** A job is starting, or runs, where it was placed (J4). */
  | {
      readonly kind: "phaseChanged";
      readonly requestId: RequestId;
      readonly phase: JobPhase;
      readonly atMs: number;
    }
  | { readonly kind: "checkpointCompleted"; readonly requestId: RequestId; readonly atMs: number }
  | {
      readonly kind: "attemptEnded";
      readonly requestId: RequestId;
      readonly outcome: AttemptOutcome;
      /** `queued`: a further attempt, entering the queue at `queuedAtMs`. */
      readonly status: RequestStatus;
      readonly queuedAtMs: number | null;
      /** Nobody had asked it to stop: a new event in the sense of V6. */
      readonly unasked: boolean;
      /** Present when this was the last preemption that `max_preemptions` allows, for the first time: an alert (V6). */
      readonly shielded?: true;
      readonly end?: EndFacts;
      readonly atMs: number;
    }
  | {
      readonly kind: "requestCancelled";
      readonly requestId: RequestId;
      /** It waited for this one, which has not ended as it had to (J9). */
      readonly because?: RequestId;
      readonly atMs: number;
    }
  | { readonly kind: "requestExpired"; readonly requestId: RequestId; readonly atMs: number }
  /** Deleted by force while it runs: its record goes with its end (Q6). */
  | { readonly kind: "deletionPlanned"; readonly requestId: RequestId }
  | { readonly kind: "requestDeleted"; readonly requestId: RequestId }
  | { readonly kind: "endedForgotten"; readonly requestIds: readonly RequestId[] }
  /** What the shares of a fair-share pool mean for its elements from now on (9.3, 9.4). */
  | {
      readonly kind: "starvationChanged";
      readonly pool: PoolName;
      readonly changes: readonly StarvationChange[];
      readonly atMs: number;
    }
  /** Since when nodes of a fair-share pool have held more than they have; null: they do not any more (9.9). */
  | {
      readonly kind: "overcommitChanged";
      readonly pool: PoolName;
      readonly changes: readonly { readonly node: NodeName; readonly sinceMs: number | null }[];
      readonly atMs: number;
    }
  /** A long fixed point was cut here: these pools are still to be looked at. */
  | { readonly kind: "schedulingPaused"; readonly pools: readonly PoolName[]; readonly atMs: number }
  /** What was left of it is done: no pool has anything to do. */
  | { readonly kind: "schedulingSettled"; readonly atMs: number };

export interface StarvationChange {
  readonly element: string;
  /** Since when it has been below its fair share; `null`: it is not. */
  readonly belowSinceMs: number | null;
  readonly status: "normal" | "below_fair_share" | "starving" | "aggressively_starving";
}
