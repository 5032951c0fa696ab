// Settings that contradict each other, or the pool. Each value alone is checked in checks.ts; here they are judged together,
// as they hold for the pool and for each group after what it inherits (9.4, P6). None of this can be forced: every one of
// these settings can be changed in the same call.

import type { PoolRecord } from "../records.ts";
import { refuse } from "../refusals.ts";
import { DEFAULT_POOL_SETTINGS, type PoolSettings } from "../settings.ts";
import type { Group, Pool } from "../state.ts";

/** Refuses a pool as it is now, with its groups, if its settings contradict each other. */
export function checkContradictions(pool: Pool): void {
  const { name, settings } = pool.record;
  checkTogether(`Pool "${name}"`, settings);
  checkKeys(pool, `Pool "${name}"`, settings);
  checkRenewal(pool.record);
  for (const group of pool.groups.values()) {
    if (Object.keys(group.record.settings).length === 0) continue;
    checkTogether(`Group "${group.record.name}"`, inherited(pool, group));
    checkKeys(pool, `Group "${group.record.name}"`, { ...NO_KEYS, ...group.record.settings });
  }
}

const NO_KEYS = { shareKeys: null, mainKey: null, nonPreemptibleUsageThreshold: {} };

/** The settings of the pool, with what the groups above and the group itself set. */
function inherited(pool: Pool, group: Group): PoolSettings {
  const { parent, settings } = group.record;
  const above = parent === null ? undefined : pool.groups.get(parent);
  return { ...(above === undefined ? pool.record.settings : inherited(pool, above)), ...settings };
}

function checkTogether(what: string, settings: PoolSettings): void {
  const threshold = settings.preemptionSatisfactionThreshold;
  const aggressiveThreshold = settings.aggressivePreemptionSatisfactionThreshold;
  if (threshold === 0) {
    refuse(
      "invalid_request",
      `${what} would have a preemption_satisfaction_threshold of 0: no work would keep any of its fair share.`,
      "Use a number above 0; 1 protects the whole fair share.",
    );
  }
  if (aggressiveThreshold > threshold) {
    refuse(
      "invalid_request",
      `${what} would have an aggressive_preemption_satisfaction_threshold of ${aggressiveThreshold}, above its preemption_satisfaction_threshold of ${threshold}.`,
      "Aggressive preemption takes more than the ordinary one, so its threshold is the lower one.",
    );
  }
  const { starvationTimeoutMs, aggressiveStarvationTimeoutMs } = settings;
  if (settings.enableAggressiveStarvation && aggressiveStarvationTimeoutMs < starvationTimeoutMs) {
    refuse(
      "invalid_request",
      `${what} would have a fair_share_aggressive_starvation_timeout of ${aggressiveStarvationTimeoutMs / 1000} s, below its fair_share_starvation_timeout of ${starvationTimeoutMs / 1000} s.`,
      "Work starves before it starves aggressively: use a longer aggressive timeout.",
    );
  }
}

/** Share keys, the main key and thresholds name keys that the pool counts. */
function checkKeys(
  { record, keys, nodes }: Pool,
  what: string,
  settings: Pick<PoolSettings, "shareKeys" | "mainKey" | "nonPreemptibleUsageThreshold">,
): void {
  if (record.nodeBacked && nodes.size === 0) return; // Nobody knows yet what the nodes will have.
  const named: readonly (readonly [string, readonly string[]])[] = [
    ["share_keys", settings.shareKeys ?? []],
    ["main_key", settings.mainKey === null ? [] : [settings.mainKey]],
    ["non_preemptible_resource_usage_threshold", Object.keys(settings.nonPreemptibleUsageThreshold)],
  ];
  for (const [setting, wanted] of named) {
    const unknown = wanted.find((key) => !keys.includes(key));
    if (unknown === undefined) continue;
    refuse(
      "unknown_key",
      `${what} would have ${setting} with "${unknown}", which pool "${record.name}" does not count.`,
      keys.length === 0 ? "Give the pool a capacity." : `Its keys are ${keys.join(", ")}.`,
    );
  }
}

/** A default renewal adapts itself to a short lease; one that was chosen must fit. */
function checkRenewal({ name, settings: { leaseMs, renewalMs } }: PoolRecord): void {
  if (leaseMs === 0) {
    refuse(
      "invalid_request",
      `Pool "${name}" would have a lease of 0 s: every holder would be lost at once.`,
      "Use a lease_seconds above 0.",
    );
  }
  if (renewalMs < leaseMs || renewalMs === DEFAULT_POOL_SETTINGS.renewalMs) return;
  refuse(
    "invalid_request",
    `Pool "${name}" would have renewal_seconds of ${renewalMs / 1000}, but a lease of ${leaseMs / 1000} s.`,
    "Holders renew several times within a lease: use a renewal_seconds of a third of it or less.",
  );
}
