// What an agent and the shim of a job say to each other, one JSON object per line, over a socket in the job's directory.
// The agent may go away and come back at any time: every agent that connects gets the whole state again.

import type { NumberedReport } from "../executors/index.ts";
import type { CheckpointAnswer } from "../runner/index.ts";

/** What a node does with a job after two thirds of `node_lost_seconds` without any server (E3). */
export type OnLost = "suspend" | "kill" | "run-on";

export type ToShim =
  | {
      readonly kind: "instruct";
      readonly do: "carry_on" | "checkpoint" | "stop";
      readonly reason: string;
      readonly leftMs: number;
    }
  /** A server has answered: the job may run on until then, in seconds since the machine was started. */
  | { readonly kind: "lease"; readonly until: number; readonly onLost: OnLost }
  /** Delivered once per id. */
  | { readonly kind: "signal"; readonly id: number; readonly signal: string }
  /** Its grant is over. */
  | { readonly kind: "kill" }
  | { readonly kind: "answer"; readonly id: number; readonly answer: CheckpointAnswer };

export interface ShimState {
  readonly phase: "starting" | "running" | "checkpointing" | "stopping" | "suspended";
  readonly progress?: string;
  /** The ids of the signals that were delivered. */
  readonly signals: readonly number[];
  /** SIGKILL did not end it. */
  readonly isStuck: boolean;
}

export type FromShim =
  | { readonly kind: "state"; readonly state: ShimState }
  | ({ readonly kind: "report" } & NumberedReport)
  /** There is more in its log. */
  | { readonly kind: "log" };
