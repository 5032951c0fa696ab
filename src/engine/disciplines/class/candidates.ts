// Who may be preempted for a waiter, and by which rule (10.1–10.3, and V2, V6 and G4 as far as they concern kinds).

import { memoised } from "../../memoised.ts";
import { BorrowLines, holdsAny, isShielded, mayBorrow, shortKeys } from "../../scheduling/victims.ts";
import type { Policy, Pool, PoolLine } from "../../state.ts";
import type { VictimSearch } from "../queue/queue-discipline.ts";
import type { QueueOrder } from "../queue/queue-order.ts";
import { type Field, type Judge, type Permission, permission } from "../queue/victims.ts";
import { costMsOf, isNearCompletion, leastCostMsSince, worthMsOf } from "./cost.ts";
import { byClass, rankOfClass } from "./score.ts";

const NEVER = Number.POSITIVE_INFINITY;

/** Whatever is stopped is of a lower class, taken by a sensitive claim or out of somebody's reserve, or fills a gap. */
export function mayStopAnybody(
  { gapKinds, isReserved, kindsOfClass, record }: Pool,
  { ranks }: QueueOrder,
): boolean {
  if (gapKinds.size > 0 || isReserved.includes(true)) return true;
  const { classBands } = record.settings;
  for (const { example } of ranks) {
    if (example.sensitive) return true;
    const own = rankOfClass(example.preemptionClass, classBands);
    if (kindsOfClass.some((count, other) => count > 0 && rankOfClass(other, classBands) < own)) return true;
  }
  return false;
}

/** Whether some run is of a lower class; only such are taken within bounds (10.2, 10.5). */
export function isAnyLower({ pool, head }: VictimSearch): boolean {
  const { classBands } = pool.record.settings;
  const own = rankOfClass(head.poolLine.preemptionClass, classBands);
  return pool.kindsOfClass.some((count, other) => count > 0 && rankOfClass(other, classBands) < own);
}

/** Components of which something may be permitted by class, as a sensitive claim, by reclaim, or since it fills a gap. */
function permittingIn(search: VictimSearch, short: readonly number[]): (policy: Policy) => boolean {
  const { pool, head } = search;
  if (head.poolLine.sensitive || pool.gapKinds.size > 0 || isAnyLower(search)) return () => true;
  return (policy) => !head.borrows && mayBorrow(policy, short);
}

const VICTIMS_MAX = 3;

/**
 * Kinds are judged when they are met, since mostly few of many are. Only components are looked at of which something may be
 * taken, and of them what holds something short.
 */
export function fieldOf(search: VictimSearch): Field {
  const { pool, head } = search;
  const short = shortKeys(search.shortage);
  const mayPermit = permittingIn(search, short);
  const judge = judgeOf(search, short);
  return {
    search,
    short,
    judge: memoised((kind) =>
      mayPermit(kind.poolLine.policy) && holdsAny(kind, short) ? judge(kind) : "10.1",
    ),
    mayPermit,
    prices: { costMsOf, leastCostMsSince, isNearCompletion },
    bounds: {
      victimsMax: pool.record.settings.maxVictims ?? VICTIMS_MAX,
      costMsMax: worthMsOf(head.poolLine, head.request),
    },
  };
}

export function judgeOf(search: VictimSearch, short: readonly number[]): Judge {
  const { pool, head } = search;
  const waiter = head.poolLine;
  const { isReserved } = pool;
  const isLower = (poolLine: PoolLine) => byClass(poolLine, waiter) > 0;
  const isInShare = !head.borrows;
  const lines = new BorrowLines();
  let isInShareAlone: boolean | undefined;

  /** Against lower runs of its own component it is judged as if these were gone. */
  const isInShareBeside = (policy: Policy): boolean => {
    if (isInShare || policy !== waiter.policy) return isInShare;
    isInShareAlone ??= isInShareWithoutLower(search);
    return isInShareAlone;
  };
  /** Shares are judged on the keys that some policy of the pool reserves. */
  const reservedKeys = pool.keys.flatMap((_, i) => (isReserved[i] ? [i] : []));
  const reservedShort = short.filter((i) => isReserved[i]);

  return (kind) => {
    const { poolLine } = kind;
    const shielded = isShielded(kind, search.nowMs);
    const { policy, line, preemptionClass } = poolLine;
    if (!line.shape.preemptible || poolLine.sensitive) return "V2";
    if (preemptionClass === 10) return "10.2";

    const somethingFrom = () => lines.borrowsAnyFrom(kind, reservedKeys);
    const serviceFrom = policy.record.kind === "service" ? somethingFrom() : 0;
    const isDear = line.shape.checkpoint === "none" && preemptionClass >= 7;
    const byClass = !waiter.sensitive && isLower(poolLine) && !isDear && !shielded;
    const byReclaim = !waiter.sensitive && isInShare && (policy !== waiter.policy || waiter.firm);
    const classFrom = () => Math.max(serviceFrom, isInShareBeside(policy) ? 0 : somethingFrom());
    const permitted = permission(kind, [
      { reason: "sensitive", from: waiter.sensitive ? serviceFrom : NEVER },
      { reason: "class", from: byClass ? classFrom() : NEVER },
      { reason: "reclaim", from: byReclaim ? lines.borrowsAnyFrom(kind, reservedShort) : NEVER },
      { reason: "backfill", from: kind.opportunistic && !shielded ? serviceFrom : NEVER },
    ]);
    if (permitted !== null) return permitted;
    if (shielded) return "V6";
    return isLower(poolLine) && (isDear || serviceFrom === NEVER) ? "10.3" : "10.1";
  };
}

function isInShareWithoutLower({ head: { poolLine }, walk }: VictimSearch): boolean {
  return walk.fitsReserve(
    poolLine,
    usageOf(poolLine, (other) => byClass(other, poolLine) > 0),
  );
}

/** Its class, and whose it is as far as that matters: in share, or in share without lower runs of its own component (10.1). */
export function rightsOf(search: VictimSearch): string {
  const { borrows, poolLine } = search.head;
  const { preemptionClass, sensitive, firm, policy } = poolLine;
  const own = sensitive ? "sensitive" : `${preemptionClass}`;
  if (borrows && !isInShareWithoutLower(search)) return own;
  return `${own} ${borrows} ${firm} ${policy.record.component}`;
}

/** What the runs of the waiter's component hold in lines that are `counted`, stopping ones included. */
function usageOf({ need, line, pool }: PoolLine, counted: (poolLine: PoolLine) => boolean) {
  const sum = { all: need.map(() => 0), firm: need.map(() => 0) };
  for (const { pools } of line.component.lines) {
    const poolLine = pools.get(pool.record.name);
    if (poolLine === undefined || !counted(poolLine)) continue;
    let count = poolLine.stoppingRuns.size;
    for (const { runs } of poolLine.runKinds) count += runs.size;
    poolLine.need.forEach((amount, i) => {
      sum.all[i] = (sum.all[i] as number) + count * amount;
      if (poolLine.firm) sum.firm[i] = (sum.firm[i] as number) + count * amount;
    });
  }
  return sum;
}

/** The rule by which runs of a kind are taken. */
export function ruleOf({ rules }: Permission): string {
  const [sensitive = NEVER, byClass = NEVER, reclaim = NEVER] = rules.map(({ from }) => from);
  if (Math.min(sensitive, byClass) < NEVER) return "10.2";
  return reclaim < NEVER ? "8.2" : "G4";
}
