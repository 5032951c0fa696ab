// Looking things up by name, and values that are refused.

import type { PolicyChange } from "../commands.ts";
import type { GroupRecord, PolicyRecord, PoolRecord } from "../records.ts";
import { refuse } from "../refusals.ts";
import { isResourceKey, type Resources } from "../resources.ts";
import type { GroupSettings, PoolSettings } from "../settings.ts";
import type { EngineState, Group, Policy, Pool } from "../state.ts";

const NAME_PATTERN = /^[a-z0-9][a-z0-9._-]{0,62}$/;

export function poolNamed(state: EngineState, name: PoolRecord["name"]): Pool {
  const pool = state.pools.get(name);
  if (pool === undefined) {
    return refuse("not_found", `There is no pool "${name}".`, "List the pools to see their names.");
  }
  if (pool.record.closing) {
    const left = pool.runCount === 1 ? "1 run is" : `${pool.runCount} runs are`;
    return refuse(
      "in_use",
      `Pool "${name}" is being deleted: ${left} left.`,
      "It is gone with the last of them; choose another name, or wait.",
    );
  }
  return pool;
}

export function groupNamed(pool: Pool, name: GroupRecord["name"]): Group {
  return (
    pool.groups.get(name) ??
    refuse("not_found", `Pool "${pool.record.name}" has no group "${name}".`, "List the groups of the pool.")
  );
}

export function policyNamed(pool: Pool, component: PolicyRecord["component"]): Policy {
  const policy = pool.policies.get(component);
  if (policy === undefined || policy.record.closing) {
    return refuse(
      "not_found",
      `Component "${component}" has no policy in pool "${pool.record.name}".`,
      "List the policies of the pool, or attach one.",
    );
  }
  return policy;
}

export function checkName(what: string, name: string): void {
  if (NAME_PATTERN.test(name)) return;
  refuse(
    "invalid_request",
    `"${name}" is not a name for a ${what}.`,
    "Use up to 63 lower-case letters, digits, dots, dashes and underscores, beginning with a letter or digit.",
  );
}

export function checkComponent(name: string): void {
  if (name.length > 0 && name.length <= 200) return;
  refuse("invalid_request", `A component's name has ${name.length} characters.`, "Use 1 to 200 characters.");
}

/** Whole numbers from `min` on, under well-formed keys (R1, R2). */
export function checkAmounts(what: string, amounts: Resources, min: 0 | 1): void {
  for (const key in amounts) {
    const amount = amounts[key] as number;
    if (!isResourceKey(key)) {
      refuse(
        "invalid_request",
        `"${key}" in the ${what} is not a resource key.`,
        "Use a lower-case letter, then up to 62 letters, digits, dots, dashes and underscores.",
      );
    }
    if (Number.isSafeInteger(amount) && amount >= min) continue;
    refuse("invalid_amount", `The ${what} has ${amount} of "${key}".`, `Use a whole number from ${min} on.`);
  }
}

export function checkWeight(what: string, weight: number): void {
  if (Number.isFinite(weight) && weight > 0) return;
  refuse("invalid_request", `The weight of the ${what} is ${weight}.`, "Use a number above 0.");
}

export function checkSettings(settings: Partial<PoolSettings> | GroupSettings): void {
  for (const [name, value] of Object.entries(settings)) {
    if (typeof value !== "number") continue;
    const isWhole = name.endsWith("Ms") || name === "maxPreemptions" || name === "maxVictims";
    if (Number.isFinite(value) && value >= 0 && (!isWhole || Number.isSafeInteger(value))) continue;
    refuse(
      "invalid_request",
      `The setting ${name} is ${value}.`,
      "Use a number from 0 on; times and counts are whole.",
    );
  }
  if ((settings.starvationTolerance ?? 0) > 1) {
    refuse(
      "invalid_request",
      `The starvation tolerance is ${settings.starvationTolerance}: work that has all of its fair share would starve.`,
      "Use a number from 0 to 1.",
    );
  }
  if ("shareKeys" in settings && settings.shareKeys?.length === 0) {
    refuse(
      "invalid_request",
      "The list of share keys is empty: no work would have a fair share.",
      "Name at least one key, or leave the list out.",
    );
  }
  if (settings.nonPreemptibleUsageThreshold !== undefined) {
    checkAmounts("non-preemptible usage threshold", settings.nonPreemptibleUsageThreshold, 0);
  }
}

export function withoutUndefined(change: PolicyChange): PolicyChange {
  return Object.fromEntries(
    Object.entries(change).filter(([, value]) => value !== undefined),
  ) as unknown as PolicyChange;
}
