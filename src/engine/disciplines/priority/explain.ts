// How discipline `priority` explains itself (14): the parts of its order, and who may be taken for whom by which rule.

import { countsForReserve } from "../../scheduling/quotas.ts";
import {
  barred,
  commonProtection,
  guardOr,
  permitted,
  startedEarlier,
  youth,
} from "../../scheduling/reasons.ts";
import { BorrowLines, isShielded, shortKeys } from "../../scheduling/victims.ts";
import type { Run } from "../../state.ts";
import type { Protection, Sparing, Verdict } from "../../why.ts";
import type { Victim, Waiter } from "../discipline.ts";
import type { OrderPart, VictimSearch } from "../queue/queue-discipline.ts";
import { reclaimsFrom, rightsFor } from "./rights.ts";

/** G1. */
export function orderParts({ poolLine, borrows }: Waiter): OrderPart[] {
  const { pool, policy, preemptionClass } = poolLine;
  const reserve: OrderPart = { part: "reserve", value: Number(!borrows), rule: "G1.1" };
  const priority: OrderPart = { part: "priority", value: policy.record.priority, rule: "G1.2" };
  const isAny = pool.record.settings.priorityPreempts === "any";
  return [
    ...(isAny ? [priority, reserve] : [reserve, priority]),
    { part: "class", value: preemptionClass, rule: "G1.3" },
  ];
}

/** Whether a run that holds something short may be taken (V2, V6, 8.1, 8.2, G4), or the one rule that forbids it. */
export function verdictsFor(search: VictimSearch): (run: Run) => Verdict {
  const { head, nowMs } = search;
  const short = shortKeys(search.shortage);
  const rights = rightsFor(search, short);
  const lines = new BorrowLines();
  return (run) => {
    const young = youth(run, nowMs);
    if (young !== null) return young;
    const { policy, need } = run.poolLine;
    const borrows = (keys: readonly number[]) =>
      keys.filter((i) => (need[i] as number) > 0).map((i) => lines.borrows(run, i));
    const isLower = policy.record.priority < head.poolLine.policy.record.priority;
    const byPriority = isLower && (rights.any || borrows(short).every(Boolean));
    const reclaims = reclaimsFrom(policy, search, rights);
    const byReclaim = reclaims && borrows(rights.reservable).some(Boolean);
    const isGap = run.kind.opportunistic;
    if (!byPriority && !byReclaim && !isGap)
      return barred(isLower || reclaims ? "uses_own_reserve" : "priority_not_lower");
    const shielded = isShielded(run.kind, nowMs);
    if (shielded && !byReclaim) return barred("shielded", run.kind.shieldEndsAtMs);
    const permit = byPriority && !shielded ? "priority" : byReclaim ? "reclaim" : "gap";
    return guardOr(search, run, permitted(permit));
  };
}

/** Who uses nothing but what is reserved for it is safe, unless priority alone decides (8.1). */
export function protectionOf(run: Run, nowMs: number): Protection[] {
  const lines = new BorrowLines();
  const { need, pool } = run.poolLine;
  const borrows = need.some((amount, i) => amount > 0 && countsForReserve(pool, i) && lines.borrows(run, i));
  const isAny = pool.record.settings.priorityPreempts === "any";
  const own: Protection[] = borrows || isAny ? [] : [{ by: "own_reserve" }];
  return [...commonProtection(run, nowMs), ...own];
}

/** Lower priority goes first, then the latest (8.3). */
export function sparedBy(run: Run, { run: victim, toldAtMs }: Victim): Sparing | null {
  const young = youth(run, toldAtMs);
  if (young !== null) return { why: "barred", bar: young.bar };
  const [theirs, victims] = [run.poolLine.policy.record.priority, victim.poolLine.policy.record.priority];
  if (theirs === victims) return startedEarlier(run, victim, "8.3");
  return theirs < victims ? null : { why: "higher_priority", rule: "8.3", theirs, victims };
}
