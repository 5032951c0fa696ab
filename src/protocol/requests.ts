// Requests as they are submitted (Q1), and what holders report about their runs.

import { z } from "zod";
import { amounts, labels, name, note, seconds } from "./common.ts";
import { arrayMember, dependency } from "./jobs.ts";

/** The settings of a step (R3). What cannot be read is refused later, as `invalid_amount`. */
const knownSettings = z.strictObject({
  gpu_count: z.number().nullish(),
  cpu_count: z.union([z.number(), z.string()]).nullish(),
  memory: z.union([z.string(), z.number()]).nullish(),
  pool_resources: amounts.nullish(),
  preemptible: z.boolean().nullish(),
  /** Of deployments, which Berth does not schedule; accepted, because ZenML writes them into every settings object. */
  min_replicas: z.unknown().optional(),
  max_replicas: z.unknown().optional(),
  autoscaling_metric: z.unknown().optional(),
  autoscaling_target: z.unknown().optional(),
  max_concurrency: z.unknown().optional(),
});
/** Other versions of ZenML write out other fields; one that was not set says nothing, so the types do not know of it. */
export const resourceSettings = z
  .object(knownSettings.shape)
  .catchall(z.null({ error: "is not a field that is known here" })) as unknown as typeof knownSettings;

export const requestOrigin = z.strictObject({ host: name, user: name, command: note });

export const requestSubmission = z.strictObject({
  component: name,
  /** Units per key; or else `settings`. */
  resources: amounts.optional(),
  settings: resourceSettings.optional(),
  preemptible: z.boolean().optional(),
  preemption_class: z.number().optional(),
  sensitive: z.boolean().optional(),
  checkpoint: z.enum(["none", "auto", "manual"]).optional(),
  checkpoint_seconds: seconds.optional(),
  walltime_seconds: seconds.optional(),
  operation: name.optional(),
  gang: z.boolean().optional(),
  nodes: z.number().optional(),
  /** Labels that every node of the placement must have (N2). */
  constraints: labels.optional(),
  /** Only these pools may admit it; left out: all in which the component has a policy (A1). */
  pools: z.array(name).min(1).optional(),
  retries: z.strictObject({ max: z.int().min(0).optional(), delay: seconds.optional() }).optional(),
  requeue: z.enum(["never", "on_preemption", "on_failure"]).optional(),
  wait_timeout_seconds: seconds.optional(),
  attended: z.boolean().optional(),
  name: name.optional(),
  labels: labels.optional(),
  note: note.optional(),
  /** Where it was started, by whom, and with which command; for its submitter and operators only. */
  origin: requestOrigin.optional(),
  /** Not in the queue before these have ended (J9). */
  after: z.array(dependency).min(1).max(100).optional(),
  /** Which member of the array of its operation it is (J9). */
  array: arrayMember.optional(),
});

/** Only what is given changes; null takes a time, a bound or the choice of pools away (Q9). */
export const requestChange = z.strictObject({
  resources: amounts.optional(),
  nodes: z.number().optional(),
  pools: z.array(name).min(1).nullable().optional(),
  preemption_class: z.number().optional(),
  walltime_seconds: seconds.nullable().optional(),
  wait_timeout_seconds: seconds.nullable().optional(),
  preemptible: z.boolean().optional(),
  checkpoint: z.enum(["none", "auto", "manual"]).optional(),
  checkpoint_seconds: seconds.nullable().optional(),
  requeue: z.enum(["never", "on_preemption", "on_failure"]).optional(),
  retries: z
    .strictObject({ max: z.int().min(0).nullable().optional(), delay: seconds.optional() })
    .optional(),
  labels: labels.optional(),
  note: note.optional(),
});

export const requestStatus = z.enum([
  "queued",
  "allocated",
  "preempting",
  "released",
  "preempted",
  "failed",
  "cancelled",
  "rejected",
  "expired",
]);

export const preemptionReason = z.enum([
  "priority",
  "reclaim",
  "backfill",
  "fair_share",
  "aggressive",
  "class",
  "sensitive",
  "limit",
  "overcommit",
  "administration",
]);

export const rejectionCode = z.enum([
  "no_policy",
  "no_executor",
  "unknown_key",
  "over_capacity",
  "over_limit",
  "over_reserved",
]);

export const starvationStatus = z.enum(["normal", "below_fair_share", "starving", "aggressively_starving"]);

export const allocationGroup = z.enum(["non_preemptible", "aggressively_preemptible", "preemptible"]);

export type WireRequestSubmission = z.infer<typeof requestSubmission>;
export type WireRequestChange = z.infer<typeof requestChange>;
