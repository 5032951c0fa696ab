// What is left of a component's reserve for one of its waiters (1, headroom; G1, 10.1).

import { isFirmOn } from "../../admission.ts";
import { headroomOf } from "../../scheduling/quotas.ts";
import type { PoolLine, Request } from "../../state.ts";
import type { QueueRules } from "./queue-discipline.ts";

/** Whether all that it asks for fits what is left, given what is left on each key. */
export function fitsWithin(
  rules: QueueRules,
  { need, pool }: PoolLine,
  headroom: (i: number) => number,
): boolean {
  for (let i = 0; i < need.length; i++) {
    const amount = need[i] as number;
    if (amount > 0 && rules.isReserveKey(pool, i) && amount > headroom(i)) return false;
  }
  return true;
}

/** The same before anything was promised on the way. */
export function fitsReserveAtFirst(rules: QueueRules, poolLine: PoolLine): boolean {
  return fitsWithin(rules, poolLine, (i) => headroomOf(poolLine, i, promisedWherever(rules, poolLine, i)));
}

/** What is promised to others of its component and counts against its reserve wherever they stand (10.1). */
function promisedWherever({ compareReserve }: QueueRules, poolLine: PoolLine, i: number): number {
  if (compareReserve === undefined || poolLine.policy.holders.size === 0) return 0;
  return promisedBeside(poolLine, i, (_, other) => compareReserve(other, poolLine) < 0);
}

/** What is promised to others of its component on a key, as far as it counts against its reserve. */
export function promisedBeside(
  poolLine: PoolLine,
  i: number,
  counts: (holder: Request, other: PoolLine) => boolean,
): number {
  const { pool, policy } = poolLine;
  const isFirm = isFirmOn(poolLine, i);
  let sum = 0;
  for (const holder of policy.holders) {
    const other = holder.line.pools.get(pool.record.name) as PoolLine;
    if (isFirm && !other.firm) continue;
    if (counts(holder, other)) sum += other.need[i] as number;
  }
  return sum;
}
