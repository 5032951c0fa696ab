// What words are made from: the facts of an explanation, and what they need to know beside them.

import type { WireExplanation } from "../../protocol/index.ts";

export interface World {
  readonly nowMs: number;
  amountsOf(pool: string): (key: string) => { readonly capacity: number; readonly usage: number };
}

export type Facts = Pick<
  WireExplanation,
  | "before"
  | "blocked"
  | "delayed_until"
  | "pools"
  | "reasons"
  | "running"
  | "starts"
  | "stop"
  | "suggestions"
  | "truncated"
  | "victim"
>;
