// Settings of a pool and of a group, with their defaults (SPEC 17). Times are milliseconds in here.

import type { Resources } from "./resources.ts";

/** Who starts what a pool grants (J3). */
export type ExecutorName = "none" | "agents" | "slurm" | "kubernetes";

export type DisciplineName = "priority" | "fair_share" | "class";

/** The weights w1, w2, w3 and w8 of the score that orders a queue of discipline `class` (10.6). */
export interface ScoreWeights {
  readonly class: number;
  readonly wait: number;
  readonly share: number;
  readonly checkpoint: number;
}

export interface PoolSettings {
  readonly backfill: "easy" | "none" | "opportunistic";
  readonly priorityPreempts: "borrowed" | "any";
  readonly minRuntimeMs: number;
  /** `null`: what the discipline says (5, and no bound for `fair_share`). */
  readonly maxPreemptions: number | null;
  readonly checkpointTimeoutMs: number;
  readonly maxDeferralMs: number;
  readonly graceMs: number;
  /** `null`: what the discipline says (3 for `class`, no bound for the others). */
  readonly maxVictims: number | null;
  readonly nearCompletionMs: number;
  /** `null`: those of gpu, mcpu and memory_mb that the pool meters, else all its keys but step_run (9). */
  readonly shareKeys: readonly string[] | null;
  /** `null`: gpu, else mcpu, else the first by name. */
  readonly mainKey: string | null;
  readonly starvationTimeoutMs: number;
  readonly aggressiveStarvationTimeoutMs: number;
  readonly starvationTolerance: number;
  readonly preemptionSatisfactionThreshold: number;
  readonly aggressivePreemptionSatisfactionThreshold: number;
  readonly nonPreemptibleUsageThreshold: Resources;
  readonly preemptiveBackoffMs: number;
  readonly enableAggressiveStarvation: boolean;
  readonly allowAggressivePreemption: boolean;
  readonly enforceLimits: boolean;
  readonly classBands: boolean;
  /** `null`: by the kind of the policy (10.6). */
  readonly scoreWeights: ScoreWeights | null;
  readonly leaseMs: number;
  readonly renewalMs: number;
  readonly heartbeatMs: number;
  /** `own`: names of others' work are not shown (14). No rule of the engine asks for it. */
  readonly visibility: "all" | "own";
  /** Only a pool with one admits jobs (J3). Absent in older records: none. */
  readonly executor?: ExecutorName;
  /** How long a node with an agent may be silent before it is down (E3). No rule of the engine asks for it. */
  readonly nodeLostMs?: number;
  /** Whether jobs may run on where no server can be reached (E3). No rule of the engine asks for it. */
  readonly allowRunOn?: boolean;
  /** Whether GPUs with processes that Berth did not start are kept out of use. No rule of the engine asks for it. */
  readonly avoidBusyDevices?: boolean;
}

/** What a group may override for everything below it (P6). */
export type GroupSettings = Partial<
  Pick<
    PoolSettings,
    | "starvationTimeoutMs"
    | "aggressiveStarvationTimeoutMs"
    | "starvationTolerance"
    | "enableAggressiveStarvation"
    | "allowAggressivePreemption"
    | "nonPreemptibleUsageThreshold"
    | "preemptionSatisfactionThreshold"
    | "aggressivePreemptionSatisfactionThreshold"
  >
>;

export const DEFAULT_POOL_SETTINGS: PoolSettings = {
  backfill: "easy",
  priorityPreempts: "borrowed",
  minRuntimeMs: 0,
  maxPreemptions: null,
  checkpointTimeoutMs: 600_000,
  maxDeferralMs: 300_000,
  graceMs: 30_000,
  maxVictims: null,
  nearCompletionMs: 300_000,
  shareKeys: null,
  mainKey: null,
  starvationTimeoutMs: 30_000,
  aggressiveStarvationTimeoutMs: 120_000,
  starvationTolerance: 0.8,
  preemptionSatisfactionThreshold: 1,
  aggressivePreemptionSatisfactionThreshold: 0.2,
  nonPreemptibleUsageThreshold: {},
  preemptiveBackoffMs: 5_000,
  enableAggressiveStarvation: false,
  allowAggressivePreemption: true,
  enforceLimits: false,
  classBands: false,
  scoreWeights: null,
  leaseMs: 300_000,
  renewalMs: 20_000,
  heartbeatMs: 5_000,
  visibility: "all",
  executor: "none",
  nodeLostMs: 300_000,
  allowRunOn: false,
  avoidBusyDevices: false,
};
