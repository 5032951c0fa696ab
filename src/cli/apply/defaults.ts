// What pools have unless they are told otherwise, so that an export can leave it out. A test compares it with a new pool.

import type { WirePoolSettings } from "../../protocol/index.ts";

export const POOL_SETTING_DEFAULTS: { readonly [Name in keyof Required<WirePoolSettings>]: unknown } = {
  backfill: "easy",
  priority_preempts: "borrowed",
  min_runtime_seconds: 0,
  max_preemptions: null,
  checkpoint_timeout_seconds: 600,
  max_deferral_seconds: 300,
  grace_seconds: 30,
  max_victims: null,
  near_completion_seconds: 300,
  share_keys: null,
  main_key: null,
  fair_share_starvation_timeout: 30,
  fair_share_aggressive_starvation_timeout: 120,
  fair_share_starvation_tolerance: 0.8,
  preemption_satisfaction_threshold: 1,
  aggressive_preemption_satisfaction_threshold: 0.2,
  non_preemptible_resource_usage_threshold: {},
  preemptive_scheduling_backoff: 5,
  enable_aggressive_starvation: false,
  allow_aggressive_preemption: true,
  enforce_limits: false,
  class_bands: false,
  score_weights: null,
  lease_seconds: 300,
  renewal_seconds: 20,
  heartbeat_seconds: 5,
  visibility: "all",
};
