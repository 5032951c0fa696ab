// How long the order of a queue lasts where time moves it (10.6; docs/decisions/keeping-class-order.md).
//
// A pool that has settled stays settled while nobody passes its head, and nobody passes a hold or is passed by
// one: only they decide what those behind them may do. All other changes of place mean nothing yet.

import type { Pool, PoolLine, Request } from "../../state.ts";
import type { Waiter } from "../discipline.ts";
import { earliestStart, type StuckHead } from "./backfill.ts";
import type { QueueRules } from "./queue-discipline.ts";
import { allLines, QueueWalk } from "./queue-walk.ts";

/** Where more pairs would have to be compared, it costs less to look again. */
const PAIRS_MAX = 1_000;

/** Until when time alone cannot let a settled pool do anything; infinite: for ever. */
export function settledUntil(
  rules: QueueRules,
  pool: Pool,
  head: StuckHead | undefined,
  nowMs: number,
): number {
  const holdsUntil = rules.orderHoldsUntil;
  let untilMs = Number.POSITIVE_INFINITY;
  if (holdsUntil === undefined || pool.order?.isMovedByTime === false) return untilMs;
  const compare = (ahead: Waiter, behind: Waiter) => {
    untilMs = Math.min(untilMs, holdsUntil(ahead, behind, nowMs));
  };
  if (pool.promised.size === 0) {
    if (head !== undefined) for (const behind of head.walk.rest()) compare(head.waiter, behind);
    return untilMs;
  }
  if (pool.promised.size * pool.waiting.size > PAIRS_MAX) return nowMs + 1;
  const walk = new QueueWalk(rules, pool, nowMs, allLines(pool, membersThatCount(pool, head, nowMs)));
  const waiters = [...walk];
  if (walk.isReordered) return nowMs + 1; // Rare, and not worth a proof.
  for (const [place, pivot] of waiters.entries()) {
    const isHead = pivot.request === head?.waiter.request;
    if (!isHead && pivot.hold !== "here") continue;
    for (let i = place + 1; i < waiters.length; i++) compare(pivot, waiters[i] as Waiter);
    for (let i = 0; i < place && !isHead; i++) compare(waiters[i] as Waiter, pivot);
  }
  return untilMs;
}

/** The first of each line, and the first whose walltime is short enough for backfill: it may matter where that one stands. */
function membersThatCount(
  pool: Pool,
  head: StuckHead | undefined,
  nowMs: number,
): (poolLine: PoolLine) => Iterable<Request> {
  const mayPass = head !== undefined && pool.record.settings.backfill !== "none";
  const walltimeMsMax = mayPass ? earliestStart(head) - nowMs : Number.NEGATIVE_INFINITY;
  return ({ line }) => {
    const members = new Set([line.members.first() as Request]);
    const short = line.members.firstRankedAtMost(walltimeMsMax);
    return short === undefined ? members : members.add(short);
  };
}
