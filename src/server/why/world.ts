// What words are made from: the facts of an explanation, and what they need to know beside them.

import type { WireExplanation, WireParty } from "../../protocol/index.ts";

export interface World {
  readonly nowMs: number;
  /** Of a job that was granted and has not started: what those who are to start it say. */
  readonly said: readonly string[];
  /** A request as the reader may know it. */
  partyOf(id: string): WireParty;
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
