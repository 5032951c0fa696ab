// What every part of the leader is given, and what the server does at the moment.

import type { Store } from "../store/index.ts";
import type { Clock, LeaderSettings, Log, Observer } from "./interface.ts";

export interface Surroundings {
  readonly store: Store;
  readonly clock: Clock;
  /** The time of the cluster. */
  readonly nowMs: () => number;
  readonly log: Log;
  readonly observer: Observer;
  readonly settings: LeaderSettings;
}

/** What this server does. Only `trouble.ts` moves it from one member to another. */
export type Condition =
  | { readonly kind: "leading" }
  /** The disk is full. */
  | { readonly kind: "readOnly"; readonly why: string }
  /** `code` is what calls are answered that come afterwards. */
  | { readonly kind: "stopped"; readonly why: string; readonly code: "stopped" | "not_leader" };
