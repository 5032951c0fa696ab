// Who may be preempted for a waiter, and by which rule (10.1–10.3, and V2, V6 and G4 as far as they concern kinds).

import { memoised } from "../../memoised.ts";
import type { PreemptionReason } from "../../records.ts";
import {
  BorrowLines,
  hasDisplaced,
  holdsAny,
  isMature,
  isShielded,
  mayBorrow,
  permittedBy,
  shortKeys,
} from "../../scheduling/victims.ts";
import type { Policy, Pool, PoolLine, Run, RunKind } from "../../state.ts";
import type { VictimSearch } from "../queue/queue-discipline.ts";
import type { QueueOrder } from "../queue/queue-order.ts";
import { costMsOf } from "./cost.ts";
import { byClass, rankOfClass } from "./score.ts";

const NEVER = Number.POSITIVE_INFINITY;

/** From which grant on the runs of a kind may be taken, and by which rule; infinite: none may. */
export interface Permission {
  readonly kind: RunKind;
  readonly sensitiveFrom: number;
  readonly classFrom: number;
  readonly reclaimFrom: number;
  /** Runs that fill a gap may be taken by any head (G4). */
  readonly gapFrom: number;
  /** By any rule, and by one that neither value nor number bounds: all but class (10.5). */
  readonly from: number;
  readonly unboundedFrom: number;
}

export interface Candidate {
  readonly run: Run;
  readonly reason: PreemptionReason;
  readonly costMs: number;
}

/** A kind of running work, and what may be taken of it or the rule that forbids that. */
export interface Judged {
  readonly kind: RunKind;
  readonly verdict: Permission | string;
}

/** What may be taken of a kind, or the rule that forbids it. */
export type Judge = (kind: RunKind) => Permission | string;

/**
 * Judges kinds when they are met, since mostly few of many are. Only components are looked at of which something may be
 * taken, and of them what holds something short.
 */
export function judgeFor(search: VictimSearch, short: readonly number[]): Judge {
  const judge = judgeOf(search, short);
  const mayPermit = permittingIn(search, short);
  return memoised((kind) => {
    const isInQuestion = mayPermit(kind.poolLine.policy) && holdsAny(kind, short);
    return isInQuestion ? judge(kind) : "10.1";
  });
}

/** What is permitted of all kinds. */
export function* permissionsBy(
  judge: Judge,
  { search, short }: { readonly search: VictimSearch; readonly short: readonly number[] },
): Generator<Permission> {
  const mayPermit = permittingIn(search, short);
  for (const policy of search.pool.policies.values()) {
    if (!mayPermit(policy)) continue;
    for (const kind of policy.runKinds) {
      const verdict = judge(kind);
      if (typeof verdict !== "string") yield verdict;
    }
  }
}

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

/** What may be taken of certain kinds. */
export function judgeKinds(
  search: VictimSearch,
  short: readonly number[],
  kinds: readonly RunKind[],
): Judged[] {
  const judge = judgeOf(search, short);
  return kinds.map((kind) => ({ kind, verdict: judge(kind) }));
}

function judgeOf(search: VictimSearch, short: readonly number[]): Judge {
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
    const sensitiveFrom = waiter.sensitive ? serviceFrom : NEVER;
    const classFrom = byClass ? Math.max(serviceFrom, isInShareBeside(policy) ? 0 : somethingFrom()) : NEVER;
    const reclaimFrom = byReclaim ? lines.borrowsAnyFrom(kind, reservedShort) : NEVER;
    const gapFrom = kind.opportunistic && !shielded ? serviceFrom : NEVER;
    const unboundedFrom = Math.min(sensitiveFrom, reclaimFrom, gapFrom);
    const from = Math.min(classFrom, unboundedFrom);
    if (from < NEVER) {
      return { kind, sensitiveFrom, classFrom, reclaimFrom, gapFrom, from, unboundedFrom };
    }
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

/** Shields end with time; costs, and who is near its end, are not looked at. */
export function mayEverStop(search: VictimSearch): (run: Run) => boolean {
  return permittedBy(judgeFor(withoutShields(search), shortKeys(search.shortage)));
}

/** When all shields of today have ended. */
export function withoutShields(search: VictimSearch): VictimSearch {
  return { ...search, nowMs: NEVER };
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

/** The run with its price, if it may be taken; its kind may be. */
export function candidateOf(
  run: Run,
  permission: Permission,
  { state, pool, head, nowMs }: VictimSearch,
): Candidate | null {
  if (run.token < permission.from || !isMature(run, pool, nowMs) || isNearCompletion(run, nowMs)) return null;
  if (hasDisplaced(state, run.request.spec.id, head.request.spec.id)) return null;
  return { run, reason: reasonFor(run, permission), costMs: costMsOf(run, nowMs) };
}

function reasonFor({ token }: Run, { sensitiveFrom, classFrom, reclaimFrom }: Permission): PreemptionReason {
  if (token >= sensitiveFrom) return "sensitive";
  if (token >= classFrom) return "class";
  return token >= reclaimFrom ? "reclaim" : "backfill";
}

/** So close to the end of a long walltime that it is left to finish (10.3). */
export function isNearCompletion({ poolLine, endMs, startedAtMs }: Run, nowMs: number): boolean {
  const { nearCompletionMs } = poolLine.pool.record.settings;
  return endMs < NEVER && endMs - nowMs <= nearCompletionMs && endMs - startedAtMs > 2 * nearCompletionMs;
}

/** The rule by which runs of a kind are taken. */
export function ruleOf({ sensitiveFrom, classFrom, reclaimFrom }: Permission): string {
  if (Math.min(sensitiveFrom, classFrom) < NEVER) return "10.2";
  return reclaimFrom < NEVER ? "8.2" : "G4";
}
