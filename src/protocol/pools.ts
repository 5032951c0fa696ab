// Pools with their settings (SPEC 17), and the groups of their share tree (P6).

import { z } from "zod";
import { amounts, count, labels, name, note, seconds } from "./common.ts";

export const executor = z.enum(["none", "agents", "slurm", "kubernetes"]);

export const discipline = z.enum(["priority", "fair_share", "class"]);

/** The weights w1, w2, w3 and w8 of 10.6. */
const scoreWeights = z.strictObject({
  class: z.number().min(0),
  wait: z.number().min(0),
  share: z.number().min(0),
  checkpoint: z.number().min(0),
});

/** What a group may override for everything below it (P6). */
export const groupSettings = z.strictObject({
  fair_share_starvation_timeout: seconds.optional(),
  fair_share_aggressive_starvation_timeout: seconds.optional(),
  fair_share_starvation_tolerance: z.number().min(0).optional(),
  enable_aggressive_starvation: z.boolean().optional(),
  allow_aggressive_preemption: z.boolean().optional(),
  non_preemptible_resource_usage_threshold: amounts.optional(),
  preemption_satisfaction_threshold: z.number().min(0).optional(),
  aggressive_preemption_satisfaction_threshold: z.number().min(0).optional(),
});

export const poolSettings = z.strictObject({
  ...groupSettings.shape,
  backfill: z.enum(["easy", "none", "opportunistic"]).optional(),
  priority_preempts: z.enum(["borrowed", "any"]).optional(),
  min_runtime_seconds: seconds.optional(),
  max_preemptions: count.nullable().optional(),
  checkpoint_timeout_seconds: seconds.optional(),
  max_deferral_seconds: seconds.optional(),
  grace_seconds: seconds.optional(),
  max_victims: count.nullable().optional(),
  near_completion_seconds: seconds.optional(),
  share_keys: z.array(z.string()).nullable().optional(),
  main_key: z.string().nullable().optional(),
  preemptive_scheduling_backoff: seconds.optional(),
  enforce_limits: z.boolean().optional(),
  class_bands: z.boolean().optional(),
  score_weights: scoreWeights.nullable().optional(),
  lease_seconds: seconds.optional(),
  renewal_seconds: seconds.optional(),
  heartbeat_seconds: seconds.optional(),
  /** `own`: names of others' work are not shown to those who merely use or read the pool. */
  visibility: z.enum(["all", "own"]).optional(),
  /** Who starts the jobs of this pool (J3): nobody, the agents of its nodes, or an adapter. */
  executor: executor.optional(),
  /** How long a node with an agent may be silent before it counts as down (E3). */
  node_lost_seconds: seconds.optional(),
  /** Whether jobs with `on_lost: run-on` may keep their units while their node is silent (E3). */
  allow_run_on: z.boolean().optional(),
  /** Whether GPUs on which processes run that Berth did not start are kept out of use. */
  avoid_busy_devices: z.boolean().optional(),
});

export const group = z.strictObject({
  name,
  parent: name.nullable().optional(),
  weight: z.number().optional(),
  /** `null`: the group guarantees the sum of what its members do (P4). */
  reserved: amounts.nullable().optional(),
  limit: amounts.optional(),
  mode: z.enum(["fair_share", "fifo"]).optional(),
  settings: groupSettings.optional(),
});

export const pool = z.strictObject({
  name,
  /** Left out: the pool is node-backed (P2). */
  capacity: amounts.optional(),
  discipline: discipline.optional(),
  description: note.optional(),
  labels: labels.optional(),
  settings: poolSettings.optional(),
  groups: z.array(group).optional(),
});

/** A change of a pool: capacity and groups are merged by key and name, settings field by field. */
export const poolUpdate = pool.omit({ discipline: true });

export type WireGroupSettings = z.infer<typeof groupSettings>;
export type WirePoolSettings = z.infer<typeof poolSettings>;
export type WireGroup = z.infer<typeof group>;
export type WirePool = z.infer<typeof pool>;
export type WirePoolUpdate = z.infer<typeof poolUpdate>;
