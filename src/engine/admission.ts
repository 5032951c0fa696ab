// Admission: could this pool ever hold the request (A1–A3)? Each policy is judged alone.

import { shortageOf } from "./placement/capacity.ts";
import type { RejectionCode, RejectionReason } from "./records.ts";
import { amountOf, isUnmeteredWhenMissing } from "./resources.ts";
import type { Policy, PoolLine } from "./state.ts";

/** Why the pool refuses the line, or null if it admits it. The rules are looked at in the order of A3. */
export function judge(poolLine: PoolLine): RejectionReason | null {
  const { line, policy, pool } = poolLine;
  const asked = line.shape.resources;
  const refused = (code: RejectionCode, key: string, allowed: number): RejectionReason => ({
    pool: pool.record.name,
    code,
    key,
    asked: amountOf(asked, key),
    allowed,
  });

  const isNamed = line.shape.pools?.includes(pool.record.name) ?? true;
  if (!isNamed || pool.record.closing || policy.record.closing) {
    return { pool: pool.record.name, code: "no_policy", key: null, asked: 0, allowed: 0 };
  }
  if (line.shape.isJob === true && (pool.record.settings.executor ?? "none") === "none") {
    return { pool: pool.record.name, code: "no_executor", key: null, asked: 0, allowed: 0 };
  }
  for (const key of Object.keys(asked)) {
    if (!pool.keys.includes(key) && !isUnmeteredWhenMissing(key)) return refused("unknown_key", key, 0);
  }

  const shortage = shortageOf(poolLine);
  if (shortage !== null) return { pool: pool.record.name, code: "over_capacity", ...shortage };

  if (line.shape.preemptionClass > policy.record.maxClass) {
    return {
      pool: pool.record.name,
      code: "over_limit",
      key: "preemption_class",
      asked: line.shape.preemptionClass,
      allowed: policy.record.maxClass,
    };
  }
  for (let i = 0; i < pool.keys.length; i++) {
    const limit = strictestLimit(policy, i);
    if ((poolLine.need[i] as number) > limit) return refused("over_limit", pool.keys[i] as string, limit);
  }
  for (let i = 0; i < pool.keys.length; i++) {
    if (!isFirmOn(poolLine, i)) continue;
    const reserved = policy.reserved[i] as number;
    if ((poolLine.need[i] as number) > reserved)
      return refused("over_reserved", pool.keys[i] as string, reserved);
  }
  return null;
}

/**
 * Whether work of this line may live inside reserved only on this key: NP work on every key, class 10 and
 * sensitive work on the keys that a policy reserves (10.8).
 */
export function isFirmOn(poolLine: PoolLine, index: number): boolean {
  return poolLine.firm && (!poolLine.line.shape.preemptible || (poolLine.pool.isReserved[index] as boolean));
}

/** The lowest limit of the policy and of all groups above it. */
function strictestLimit(policy: Policy, index: number): number {
  let limit = policy.limit[index] as number;
  for (let group = policy.group; group !== null; group = group.parent) {
    limit = Math.min(limit, group.limit[index] as number);
  }
  return limit;
}
