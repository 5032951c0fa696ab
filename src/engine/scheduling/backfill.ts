// Backfill: a later request may start behind the head if that cannot delay the head (G4).

import { freeOf, holdNeed, type Pool, type PoolLine, type Request } from "../state.ts";
import { QueueWalk, type Waiter } from "./queue-walk.ts";

export interface Backfill {
  readonly waiter: Waiter;
  /** It may delay the head, so any head may preempt it. */
  readonly opportunistic: boolean;
}

/**
 * The first request, in the order of the queue, that may start behind the head. Of a line only one member
 * comes into question: the first, or where only a short walltime helps, the first that is short enough.
 */
export function findBackfill(
  pool: Pool,
  head: Waiter,
  shortage: readonly number[],
  nowMs: number,
): Backfill | undefined {
  const { backfill } = pool.record.settings;
  if (backfill === "none") return undefined;
  const walltimeMsMax = earliestStart(pool, shortage) - nowMs;
  const promised = promisedUnits(pool);

  const delaysHead = (request: Request, poolLine: PoolLine) =>
    !leavesEnough(pool, request, poolLine, head, promised) &&
    !((request.spec.walltimeMs ?? Infinity) <= walltimeMsMax);
  const mayFillGap = (poolLine: PoolLine) => backfill === "opportunistic" && poolLine.line.shape.preemptible;

  const walk = new QueueWalk(pool, nowMs, (poolLine) => {
    const { members } = poolLine.line;
    if (poolLine.need.some((amount, i) => amount > 0 && amount > freeOf(pool, i))) return [];
    const first = members.first() as Request;
    if (mayFillGap(poolLine) || !delaysHead(first, poolLine)) return [first];
    const short = members.firstRankedAtMost(walltimeMsMax);
    return short === undefined ? [] : [short];
  });
  for (const waiter of walk) {
    const { request, poolLine } = waiter;
    if (walk.quotaBlock(waiter) !== null || !walk.fits(waiter)) continue;
    const opportunistic = delaysHead(request, poolLine);
    if (!opportunistic || mayFillGap(poolLine)) return { waiter, opportunistic };
  }
  return undefined;
}

/** Enough is left for the head on every key that both ask for, of free units that no hold sets aside. */
function leavesEnough(
  pool: Pool,
  request: Request,
  { need }: PoolLine,
  head: Waiter,
  promised: readonly number[],
): boolean {
  const holdsHere = request.progress.hold?.pool === pool.record.name;
  return need.every((amount, i) => {
    const wanted = head.poolLine.need[i] as number;
    if (amount === 0 || wanted === 0) return true;
    const setAside = (promised[i] as number) - (holdsHere ? amount : 0);
    return freeOf(pool, i) - setAside - amount >= wanted;
  });
}

function promisedUnits(pool: Pool): number[] {
  const promised = pool.keys.map(() => 0);
  for (const holder of pool.holders) {
    holdNeed(holder, pool).forEach((amount, i) => {
      promised[i] = (promised[i] as number) + amount;
    });
  }
  return promised;
}

/** When the head fits if every run ends at its walltime; minus infinity if it never does, so that nothing ends in time. */
export function earliestStart(pool: Pool, shortage: readonly number[]): number {
  let startMs = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < shortage.length; i++) {
    const lacking = shortage[i] as number;
    if (lacking <= 0) continue;
    const last = pool.ends.firstWhereSumExceeds(i, lacking - 1);
    if (last === undefined) return Number.NEGATIVE_INFINITY;
    startMs = Math.max(startMs, last.endMs);
  }
  return startMs;
}
