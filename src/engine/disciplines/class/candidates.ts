// Who may be preempted for a waiter, and by which rule (10.1–10.3, and V2, V6 and G4 as far as they concern kinds).

import { isFirmOn } from "../../admission.ts";
import type { PreemptionReason } from "../../records.ts";
import { BorrowLines, isEligible, isMature } from "../../scheduling/victims.ts";
import type { Run, RunKind } from "../../state.ts";
import type { VictimSearch } from "../queue/queue-discipline.ts";
import { rankOfClass } from "./score.ts";

const NEVER = Number.POSITIVE_INFINITY;

/** From which grant on the runs of a kind may be taken, and by which rule; infinite: none may. */
export interface Permission {
  readonly kind: RunKind;
  /** What each of its runs holds of every short key. */
  readonly held: readonly number[];
  readonly sensitiveFrom: number;
  readonly classFrom: number;
  readonly reclaimFrom: number;
  /** Runs that fill a gap may be taken by any head (G4). */
  readonly from: number;
  /** From which grant on value and number bound a run, or do not: what is taken back, or fills a gap (10.5, G4). */
  readonly boundedFrom: number;
  readonly unboundedFrom: number;
}

/** Why a run may be taken. */
export interface Permit {
  readonly reason: PreemptionReason;
  /** Neither value nor number bounds it. */
  readonly isUnbounded: boolean;
}

/** Judges kinds of running work for the head of a search: what may be taken of them, or the rule that forbids it. */
export function judgeOf(
  search: VictimSearch,
  short: readonly number[],
): (kind: RunKind) => Permission | string {
  const { pool, head, walk } = search;
  const waiter = head.poolLine;
  const { classBands } = pool.record.settings;
  const rank = rankOfClass(waiter.preemptionClass, classBands);
  const fitsHeadroom = (i: number) => (waiter.need[i] as number) <= walk.headroom(waiter, i);
  const mayReclaim = short.every(fitsHeadroom);
  const mayReclaimOwn = short.some((i) => isFirmOn(waiter, i));
  // Unlike in the order of the queue, a key that nobody reserves counts here (G1).
  const mustBorrow = waiter.need.some((amount, i) => amount > 0 && !fitsHeadroom(i));
  const lines = new BorrowLines();

  return (kind) => {
    const { policy, line, preemptionClass, need } = kind.poolLine;
    if (kind.shielded) return "V6";
    if (!isEligible(kind, short)) return "V2";
    if (preemptionClass === 10) return "10.1";

    const isOwn = policy === waiter.policy;
    const isLower = rankOfClass(preemptionClass, classBands) < rank;
    const isDear = line.shape.checkpoint === "none" && preemptionClass >= 7;
    const byClass = !waiter.sensitive && isLower && !isDear;
    const byReclaim = !waiter.sensitive && mayReclaim && (!isOwn || mayReclaimOwn);
    const forbiddenBy = waiter.sensitive || (isLower && isDear) ? "10.3" : isLower ? "10.2" : "10.1";
    if (!(waiter.sensitive || byClass || byReclaim || kind.opportunistic)) return forbiddenBy;

    const held = short.map((i) => need[i] as number);
    let borrowsSomeFrom = NEVER;
    let borrowsAllFrom = 0;
    for (const i of short) {
      if (need[i] === 0) continue;
      const from = lines.borrowsFrom(kind, i);
      borrowsSomeFrom = Math.min(borrowsSomeFrom, from);
      borrowsAllFrom = Math.max(borrowsAllFrom, from);
    }
    const serviceFrom = policy.record.kind === "service" ? borrowsSomeFrom : 0;
    const shareFrom = isOwn || !mustBorrow ? 0 : borrowsAllFrom;
    const sensitiveFrom = waiter.sensitive ? serviceFrom : NEVER;
    const classFrom = byClass ? Math.max(shareFrom, serviceFrom) : NEVER;
    const reclaimFrom = byReclaim ? borrowsSomeFrom : NEVER;
    const unboundedFrom = kind.opportunistic ? 0 : Math.min(sensitiveFrom, reclaimFrom);
    const from = Math.min(classFrom, unboundedFrom);
    if (from === NEVER) return forbiddenBy;
    const boundedFrom = classFrom < unboundedFrom ? classFrom : NEVER;
    return { kind, held, sensitiveFrom, classFrom, reclaimFrom, from, boundedFrom, unboundedFrom };
  };
}

/** Kinds that hold something short. */
export function kindsConcerned({ pool }: VictimSearch, short: readonly number[]): RunKind[] {
  return [...pool.runKinds].filter(({ poolLine }) => short.some((i) => (poolLine.need[i] as number) > 0));
}

/** Why this run may be taken, or null if it may not; its kind and its age have been looked at. */
export function permitOf(run: Run, permission: Permission, nowMs: number): Permit | null {
  const { kind, sensitiveFrom, classFrom, reclaimFrom, unboundedFrom } = permission;
  const { token } = run;
  if (!isNearCompletion(run, nowMs)) {
    if (token >= sensitiveFrom) return { reason: "sensitive", isUnbounded: true };
    if (token >= classFrom) return { reason: "class", isUnbounded: token >= unboundedFrom };
    if (token >= reclaimFrom) return { reason: "reclaim", isUnbounded: true };
  }
  return kind.opportunistic ? { reason: "backfill", isUnbounded: true } : null;
}

/** So close to the end of a long walltime that it is left to finish (10.3). */
function isNearCompletion({ poolLine, endMs, startedAtMs }: Run, nowMs: number): boolean {
  const { nearCompletionMs } = poolLine.pool.record.settings;
  return endMs < NEVER && endMs - nowMs <= nearCompletionMs && endMs - startedAtMs > 2 * nearCompletionMs;
}

/** How many runs of a kind are old enough (V2) and began with this grant or later. */
export function countFrom(from: number, { kind }: Permission, { pool, nowMs }: VictimSearch): number {
  if (from === NEVER) return 0;
  const mature = kind.runs.countWhile((run) => isMature(run, pool, nowMs));
  return Math.max(0, mature - kind.runs.countWhile((run) => run.token < from));
}

/** The rule by which runs of a kind are taken. */
export function ruleOf({ sensitiveFrom, classFrom, reclaimFrom }: Permission): string {
  if (Math.min(sensitiveFrom, classFrom) < NEVER) return "10.2";
  return reclaimFrom < NEVER ? "8.2" : "G4";
}
