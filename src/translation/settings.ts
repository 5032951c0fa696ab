// Settings of pools and groups: wire names and seconds ⇄ the engine's names and milliseconds (SPEC 17).

import type { GroupSettings, PoolSettings } from "../engine/index.ts";
import type { WireGroupSettings, WirePoolSettings } from "../protocol/index.ts";
import { toMs, toSeconds } from "./units.ts";

interface Field {
  readonly wire: keyof WirePoolSettings;
  readonly engine: keyof PoolSettings;
  readonly isTime: boolean;
}

/** Typed by what it must be: a setting of the engine that is forgotten here does not compile. */
const NAMES: Record<keyof Required<PoolSettings>, keyof WirePoolSettings> = {
  backfill: "backfill",
  priorityPreempts: "priority_preempts",
  minRuntimeMs: "min_runtime_seconds",
  maxPreemptions: "max_preemptions",
  checkpointTimeoutMs: "checkpoint_timeout_seconds",
  maxDeferralMs: "max_deferral_seconds",
  graceMs: "grace_seconds",
  maxVictims: "max_victims",
  nearCompletionMs: "near_completion_seconds",
  shareKeys: "share_keys",
  mainKey: "main_key",
  starvationTimeoutMs: "fair_share_starvation_timeout",
  aggressiveStarvationTimeoutMs: "fair_share_aggressive_starvation_timeout",
  starvationTolerance: "fair_share_starvation_tolerance",
  preemptionSatisfactionThreshold: "preemption_satisfaction_threshold",
  aggressivePreemptionSatisfactionThreshold: "aggressive_preemption_satisfaction_threshold",
  nonPreemptibleUsageThreshold: "non_preemptible_resource_usage_threshold",
  preemptiveBackoffMs: "preemptive_scheduling_backoff",
  enableAggressiveStarvation: "enable_aggressive_starvation",
  allowAggressivePreemption: "allow_aggressive_preemption",
  enforceLimits: "enforce_limits",
  classBands: "class_bands",
  scoreWeights: "score_weights",
  leaseMs: "lease_seconds",
  renewalMs: "renewal_seconds",
  heartbeatMs: "heartbeat_seconds",
  visibility: "visibility",
  executor: "executor",
  nodeLostMs: "node_lost_seconds",
  allowRunOn: "allow_run_on",
  avoidBusyDevices: "avoid_busy_devices",
};

const FIELDS: readonly Field[] = Object.entries(NAMES).map(([engine, wire]) => ({
  wire,
  engine: engine as keyof PoolSettings,
  isTime: engine.endsWith("Ms"),
}));

export function toPoolSettings(wire: WirePoolSettings): Partial<PoolSettings> {
  return toEngine(wire) as Partial<PoolSettings>;
}

export function toGroupSettings(wire: WireGroupSettings): GroupSettings {
  return toEngine(wire) as GroupSettings;
}

export function presentPoolSettings(settings: PoolSettings): WirePoolSettings {
  return present(settings) as WirePoolSettings;
}

export function presentGroupSettings(settings: GroupSettings): WireGroupSettings {
  return present(settings) as WireGroupSettings;
}

function toEngine(wire: WirePoolSettings): Record<string, unknown> {
  const settings: Record<string, unknown> = {};
  for (const { wire: from, engine: to, isTime } of FIELDS) {
    const value = wire[from];
    if (value !== undefined) settings[to] = isTime ? toMs(value as number) : value;
  }
  return settings;
}

function present(settings: Partial<PoolSettings>): Record<string, unknown> {
  const wire: Record<string, unknown> = {};
  for (const { wire: to, engine: from, isTime } of FIELDS) {
    const value = settings[from];
    if (value !== undefined) wire[to] = isTime ? toSeconds(value as number) : value;
  }
  return wire;
}
