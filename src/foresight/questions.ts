// What can be asked of the foresight thread, and what it answers. Plain data: it travels between threads.

import type {
  Account,
  Command,
  Event,
  Explanation,
  PoolName,
  Refusal,
  RequestId,
  Resources,
} from "../engine/index.ts";

export type Question =
  /** Why a request stands where it stands, and what would start it now (14). */
  | {
      readonly kind: "explain";
      readonly requestId: RequestId;
      readonly suggestions: boolean;
      /** The pools that the caller reaches; null: all of them. */
      readonly pools: readonly PoolName[] | null;
    }
  /** What changes would do, one after the other (P10, X1). */
  | {
      readonly kind: "plan";
      readonly steps: readonly PlanStep[];
      /** How far time is to pass after the change, and without it (X6); left out: not at all. */
      readonly horizonMs?: number;
    };

/** One change of a plan. Of several commands the first counts that is not refused because something exists or does not. */
export interface PlanStep {
  readonly commands: readonly Command[];
}

export interface Explained {
  readonly atSeq: number;
  /** Undefined for a request that is not in memory. */
  readonly facts: Explanation | undefined;
  readonly suggestions: readonly Suggestion[];
}

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
      readonly later: Later | null;
    }
  | { readonly outcome: "refused"; readonly atSeq: number; readonly step: number; readonly refusal: Refusal };

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

export type AnswerTo<Asked extends Question> = Asked extends { readonly kind: "explain" } ? Explained : Plan;

/** A single change after which the request is granted (Y8). */
export type Suggestion =
  | { readonly change: "fewer_units"; readonly pool: string; readonly resources: Resources }
  | { readonly change: "fewer_nodes"; readonly pool: string; readonly nodes: number }
  | { readonly change: "another_pool"; readonly pool: string }
  | { readonly change: "preemptible"; readonly pool: string }
  | {
      readonly change: "higher_limit";
      readonly pool: string;
      readonly key: string;
      readonly limit: number;
    }
  | {
      readonly change: "higher_group_limit";
      readonly pool: string;
      readonly group: string;
      readonly key: string;
      readonly limit: number;
    }
  | { readonly change: "more_capacity"; readonly pool: string; readonly capacity: Resources };
