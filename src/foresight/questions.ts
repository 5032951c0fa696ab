// What can be asked of the foresight thread, and what it answers. Plain data: it travels between threads.

import type {
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
  | { readonly kind: "plan"; readonly steps: readonly PlanStep[] };

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
      /** What each step would make happen. */
      readonly events: readonly (readonly Event[])[];
    }
  | { readonly outcome: "refused"; readonly atSeq: number; readonly step: number; readonly refusal: Refusal };

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
