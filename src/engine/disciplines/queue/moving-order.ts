// How long the order of a queue lasts where time moves it (10.6; docs/decisions/keeping-class-order.md).
//
// A pool that has settled stays settled while nobody passes its head, and nobody passes a hold or is passed by
// one: only they decide what those behind them may do. All other changes of place mean nothing yet.

import type { Pool } from "../../state.ts";
import type { StuckHead } from "./backfill.ts";
import type { QueueRules } from "./queue-discipline.ts";

/** Until when time alone cannot let a settled pool do anything; infinite: for ever. */
export function settledUntil(
  { orderHoldsUntil }: QueueRules,
  pool: Pool,
  head: StuckHead | undefined,
  nowMs: number,
): number {
  let untilMs = Number.POSITIVE_INFINITY;
  if (orderHoldsUntil === undefined || pool.order?.isMovedByTime === false) return untilMs;
  if (pool.promised.size > 0) return nowMs + 1; // Holds are soon over, so that the order around them needs no proof.
  if (head === undefined) return untilMs;
  for (const behind of head.walk.rest())
    untilMs = Math.min(untilMs, orderHoldsUntil(head.waiter, behind, nowMs));
  return untilMs;
}
