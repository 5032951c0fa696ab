// How discipline `priority` explains itself (14): the parts of its order, and who may be taken for whom by which rule.

import { countsForReserve } from "../../scheduling/quotas.ts";
import { commonProtection, startedEarlier, youth } from "../../scheduling/reasons.ts";
import { BorrowLines } from "../../scheduling/victims.ts";
import type { Run } from "../../state.ts";
import type { Bar, Protection, Sparing } from "../../why.ts";
import type { Victim, Waiter } from "../discipline.ts";
import type { OrderPart } from "../queue/queue-discipline.ts";
import type { Permission } from "../queue/victims.ts";

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

/** Why no rule permits to take a run (8.1, 8.2). */
export function barsFor(): (run: Run, verdict: Permission | string) => Bar {
  return (_, verdict) => (verdict === "8.2" ? "priority_not_lower" : "uses_own_reserve");
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
