// The facts that explanations are made of (14). Each is one member of a union: words are made elsewhere, from these.

import type { ComponentName, PoolName, RequestId, RequestStatus } from "./records.ts";
import type { Resources } from "./resources.ts";
import type { WhyCode } from "./why-codes.ts";

/** Why a request waits in one word; not in the queue yet: a pause between attempts, others that have to end, an array. */
export type WaitCode = WhyCode | "delayed" | "after" | "array";

/** Which part of the order puts one request before another, with what each of them has there (G1, 9.6, 10.6). */
export type OrderDifference = { readonly rule: OrderRule } & (
  | {
      /** Fits its reserve, is sensitive: 1 yes, 0 no. Scores are in millionths. */
      readonly part: "sensitive" | "reserve" | "priority" | "class" | "band" | "score";
      readonly theirs: number;
      readonly mine: number;
    }
  | { readonly part: "submission"; readonly theirsAtMs: number; readonly mineAtMs: number }
  /** In a fair-share pool, on the level where the ways to the two part; null: without a fair share nothing compares. */
  | {
      readonly part: "satisfaction" | "age";
      readonly theirs: ComparedElement;
      readonly mine: ComparedElement;
    }
);

export type OrderRule = "G1.1" | "G1.2" | "G1.3" | "G1.4" | "9.6" | "10.6";

export interface ComparedElement {
  readonly kind: "group" | "policy" | "operation";
  readonly name: string;
  /** The group or policy above it; null: the pool itself. */
  readonly parent: string | null;
  readonly satisfaction: number | null;
}

export interface OrderFact {
  /** Who comes first. */
  readonly requestId: RequestId;
  readonly difference: OrderDifference;
}

/** By which rule a run may be taken. */
export type Permit =
  | "priority"
  | "reclaim"
  | "gap"
  | "class"
  | "sensitive_claim"
  | "beyond_share"
  | "within_share";

/** The one rule that forbids to take a run. */
export type Bar =
  | "not_preemptible"
  | "sensitive"
  | "too_young"
  | "shielded"
  | "guarded"
  | "priority_not_lower"
  | "uses_own_reserve"
  | "top_class"
  | "class_not_lower"
  | "in_share"
  | "no_checkpoint"
  | "service"
  | "near_completion"
  | "costs_too_much"
  | "same_operation"
  | "starving"
  | "protected_share"
  | "left_too_poor";

export type Verdict =
  | { readonly permit: Permit; readonly bar: null; readonly untilMs: null }
  /** `untilMs`: when that alone ends; null: it does not, or nobody knows when. */
  | { readonly permit: null; readonly bar: Bar; readonly untilMs: number | null };

/** Runs that differ in nothing that matters here, and what may be done with them. */
export interface CandidateKind {
  readonly component: ComponentName;
  readonly priority: number;
  readonly preemptionClass: number;
  readonly resources: Resources;
  readonly count: number;
  readonly verdict: Verdict;
  /** What it costs to stop the cheapest of them, in hundredths of a minute; null where nothing is weighed (10.4). */
  readonly cost: number | null;
}

/** Why nobody is preempted for a request (Y4). */
export type PreemptionFact =
  /** Only the first in line may (V1). */
  | { readonly why: "not_first"; readonly head: RequestId }
  /** Its own quota blocks it (V1, G3). */
  | { readonly why: "own_quota" }
  /** It is promised its units already (V5). */
  | { readonly why: "promised" }
  /** Nothing is short, or what is coming free will do (V1, 9.11). */
  | { readonly why: "not_short" }
  /** What may be taken is less than is lacking (V3). */
  | {
      readonly why: "too_little";
      readonly keys: readonly { key: string; lacking: number; permitted: number }[];
    }
  /** With all that may be taken, fewer nodes would have room than it asks for (N2, V3). */
  | { readonly why: "too_few_nodes"; readonly fitting: number; readonly asked: number }
  /** What it is worth does not allow so many victims, or such dear ones (10.5). */
  | {
      readonly why: "too_dear";
      readonly victims: number;
      readonly victimsMax: number;
      readonly cost: number;
      readonly value: number;
    }
  /** It does not starve (9.4); null: it is not below its fair share. */
  | { readonly why: "not_starving"; readonly starvesAtMs: number | null }
  /** A preemptive stage has just started something (9.7). */
  | { readonly why: "back_off"; readonly untilMs: number }
  /** Each of them may be taken, but not as many as are needed (9.8). */
  | { readonly why: "left_too_poor" }
  /** The scheduler goes on with this pool in a moment. */
  | { readonly why: "unsettled" };

/** What protects a run, and until when (Y5). */
export type Protection =
  | { readonly by: "not_preemptible" | "sensitive" | "top_class" | "no_checkpoint" | "service" }
  | { readonly by: "own_reserve" }
  | { readonly by: "min_runtime" | "shield" | "near_completion"; readonly untilMs: number | null }
  | { readonly by: "fair_share"; readonly group: "non_preemptible" | "aggressively_preemptible" };

/** How a run stands (Y5). */
export interface RunFacts {
  readonly pool: PoolName;
  readonly startedAtMs: number;
  readonly endsAtMs: number | null;
  /** Per key what it holds, and what of it is borrowed (G6). */
  readonly units: readonly { readonly key: string; readonly amount: number; readonly borrowed: number }[];
  /** Requests that wait and could take it if they were first in line, the first of them. */
  readonly takers: readonly { readonly requestId: RequestId; readonly permit: Permit }[];
  readonly takerCount: number;
  readonly protection: readonly Protection[];
}

/** The rule that spared a run when another one was chosen as a victim, with what each of them has there. */
export type Sparing =
  /** Nobody may take it, whoever asks (V2, 10.2). */
  | { readonly why: "barred"; readonly bar: SparingBar }
  /** It comes later in the order of victims (8.3, 10.5); costs are in hundredths of a minute. */
  | {
      readonly why: "higher_priority" | "higher_class" | "higher_cost";
      readonly rule: "8.3" | "10.5";
      readonly theirs: number;
      readonly victims: number;
    }
  | {
      readonly why: "started_earlier";
      readonly rule: "8.3" | "9.8" | "10.5";
      readonly theirsAtMs: number;
      readonly victimsAtMs: number;
    };

export type SparingBar = "not_preemptible" | "sensitive" | "too_young" | "top_class";

/** A run that goes on, and has what its victim gives up. */
export type Spared = { readonly requestId: RequestId } & Sparing;

/** How a victim stands among the others (Y6). */
export interface VictimFacts {
  /** Its place among those that stop for the same request, in the order of victims, and how many there are. */
  readonly place: number;
  readonly count: number;
  /** Runs that went on when it was chosen, one per component and rule; the latest of them. */
  readonly spared: readonly Spared[];
}

/** What becomes of a victim. */
export interface AfterStop {
  /** Its place in each queue when it has stopped; none: it does not come back, or not at once. */
  readonly comesBack: readonly { readonly pool: PoolName; readonly place: number }[];
  /** `delayed`: queued again after a pause; `allocated`: started again at once. */
  readonly endsAs: RequestStatus | "delayed";
}
