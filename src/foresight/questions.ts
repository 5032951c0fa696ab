// What can be asked of the foresight thread, and what it answers. Plain data: it travels between threads.

import type {
  Account,
  AfterStop,
  Command,
  Event,
  Explanation,
  GroupName,
  NodeName,
  OrderFact,
  PoolName,
  Refusal,
  RequestId,
  Resources,
  Warning,
} from "../engine/index.ts";
import type { FoundInQueue, QueueSearch } from "./queue-search.ts";

export type Question =
  /** Why a request stands where it stands, and what would start it now (14). */
  | {
      readonly kind: "explain";
      readonly requestId: RequestId;
      readonly suggestions: boolean;
      /** The pools that the caller reaches; null: all of them. */
      readonly pools: readonly PoolName[] | null;
      /** Another request that its place is to be compared with (Y7). */
      readonly before?: RequestId;
    }
  /** What changes would do, one after the other (P10, X1). */
  | {
      readonly kind: "plan";
      readonly steps: readonly PlanStep[];
      /** How far time is to pass after the change, and without it (X6); left out: not at all. */
      readonly horizonMs?: number;
    }
  /** A page of what waits, found by filters or far down (B4). */
  | { readonly kind: "queue"; readonly search: QueueSearch };

/** One change of a plan. Of several commands the first counts that is not refused because something exists or does not. */
export interface PlanStep {
  readonly commands: readonly Command[];
}

export interface Explained {
  readonly atSeq: number;
  /** Undefined for a request that is not in memory. */
  readonly facts: Explanation | undefined;
  readonly suggestions: Suggestions;
  /** Null: it does not wait, or was not asked for. */
  readonly starts: Starts | null;
  /** What becomes of a victim; null: it is none, or was not asked for. */
  readonly next: AfterStop | null;
  readonly before: readonly { readonly pool: PoolName; readonly order: OrderFact }[] | null;
}

/** When it starts if nothing new arrives and runs end at their walltimes (Y3, X6). */
export type Starts =
  | { readonly basis: "by_walltimes"; readonly atMs: number }
  /** Runs that hold what it needs, and that need not end. */
  | { readonly basis: "unknown"; readonly withoutWalltime: readonly RequestId[] }
  /** Not before, as far as was looked. */
  | { readonly basis: "later"; readonly thanMs: number };

export type Plan =
  | {
      readonly outcome: "planned";
      readonly atSeq: number;
      /** Which command of each step counts. */
      readonly chosen: readonly number[];
      /** What each step would make happen. */
      readonly events: readonly (readonly Event[])[];
      /** Of the pools that the change touches. */
      readonly accounts: readonly PoolAccounts[];
      /** What cannot be kept, or looks like a slip, after the change and not before it. */
      readonly warnings: readonly Warning[];
      readonly later: Later | null;
    }
  | { readonly outcome: "refused"; readonly atSeq: number; readonly step: number; readonly refusal: Refusal }
  /** The budget was spent in this step; a part of what a plan does would be no plan (X3, X7). */
  | {
      readonly outcome: "too_large";
      readonly atSeq: number;
      readonly step: number;
      readonly steps: number;
    };

/** Null where the pool does not exist before or after the change. */
export interface PoolAccounts {
  readonly pool: PoolName;
  readonly before: readonly Account[] | null;
  readonly after: readonly Account[] | null;
}

/** What differs in the time that follows (X2). */
export interface Later {
  /** Requests that start at another time; null: not within the horizon. */
  readonly moved: readonly {
    readonly requestId: RequestId;
    readonly beforeMs: number | null;
    readonly afterMs: number | null;
  }[];
  /** Unit-seconds of work thrown away by preemption, per key. */
  readonly lost: { readonly before: Resources; readonly after: Resources };
  /** How far both runs got. */
  readonly reachedMs: number;
  readonly isCut: boolean;
}

export type AnswerTo<Asked extends Question> = Asked extends { readonly kind: "explain" }
  ? Explained
  : Asked extends { readonly kind: "queue" }
    ? FoundInQueue
    : Plan;

export type Answer = AnswerTo<Question>;

/** Others that a change concerns. */
export interface SuggestionEffects {
  readonly granted: RequestId[];
  readonly preempted: RequestId[];
  readonly rejected: RequestId[];
}

/** A single change after which the request starts, at once or when its victims have stopped (Y8–Y11). */
export type Suggestion = SuggestedChange & {
  readonly pool: PoolName;
  /** Who can make it: the submitter, an operator, or nobody but time. */
  readonly by: "you" | "operator" | "time";
  readonly starts: "now" | "after";
  /** With `after`: when its victims have been asked for the last time; null: nobody stops for it. */
  readonly startsByMs: number | null;
  /** A step less would not do. */
  readonly minimal: boolean;
  /** In steps of its kind, to compare changes of one kind. */
  readonly size: number;
  readonly effects: SuggestionEffects;
};

export type SuggestedChange =
  | { readonly change: "fewer_units"; readonly resources: Resources }
  | { readonly change: "fewer_nodes"; readonly nodes: number }
  | { readonly change: "walltime"; readonly walltimeMs: number }
  | { readonly change: "preemptible" }
  | { readonly change: "higher_class"; readonly preemptionClass: number }
  | { readonly change: "another_pool" }
  | { readonly change: "higher_limit"; readonly limit: Resources }
  | { readonly change: "higher_group_limit"; readonly group: GroupName; readonly limit: Resources }
  | { readonly change: "more_reserved"; readonly reserved: Resources }
  | { readonly change: "higher_priority"; readonly priority: number }
  /** With `nodes`: by so many more nodes like one that is there. */
  | {
      readonly change: "more_capacity";
      readonly capacity: Resources;
      readonly nodes: { readonly count: number; readonly like: NodeName } | null;
    }
  | { readonly change: "node_back"; readonly node: NodeName }
  | { readonly change: "run_ends"; readonly requestId: RequestId }
  | { readonly change: "ahead_withdrawn"; readonly requestId: RequestId };

export interface Suggestions {
  /** The most useful first. */
  readonly all: readonly Suggestion[];
  /** The budget was spent before everything was tried (Y12). */
  readonly isTruncated: boolean;
}
