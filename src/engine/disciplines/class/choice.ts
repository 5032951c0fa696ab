// Which candidates go (10.5): greedily, by class, cost and start, until the waiter fits, without those not needed.

import { memoised } from "../../memoised.ts";
import { Sum } from "../../scheduling/cover.ts";
import type { PoolLine, RunKind } from "../../state.ts";
import {
  type Candidate,
  couldCover,
  type Field,
  inOrder,
  NO_BOUNDS,
  type Permission,
  permissionsIn,
  take,
} from "../queue/victims.ts";
import { isAnyLower } from "./candidates.ts";

/** Which candidates there are within which bounds, and in which order they are taken. */
export interface Pass {
  readonly field: Field;
  /** With the largest first, by how much of the shortage they cover; otherwise by class. */
  readonly isLargestFirst: boolean;
}

/** What need not be bounded goes alone, if it is enough; otherwise all that is permitted, in one order and then another. */
export function* passesOf(field: Field): Generator<Pass> {
  const judge = memoised((kind: RunKind) => unbounded(field.judge(kind)));
  yield { field: { ...field, judge, bounds: NO_BOUNDS }, isLargestFirst: false };
  // Where nothing is bounded and all of it together was not enough, bounds would only leave less.
  if (!isAnyBounded(field)) return;
  yield { field, isLargestFirst: false };
  yield { field, isLargestFirst: true };
}

/** By any rule but class (10.5), though a decision may name that one. */
function unbounded(verdict: Permission | string): Permission | string {
  if (typeof verdict === "string") return verdict;
  const from = unboundedFrom(verdict);
  return from === Number.POSITIVE_INFINITY ? "10.5" : { ...verdict, from };
}

function unboundedFrom({ rules }: Permission): number {
  return Math.min(...rules.map(({ reason, from }) => (reason === "class" ? Number.POSITIVE_INFINITY : from)));
}

function isAnyBounded(field: Field): boolean {
  if (!isAnyLower(field.search)) return false;
  for (const permission of permissionsIn(field)) {
    if (permission.from !== unboundedFrom(permission)) return true;
  }
  return false;
}

export function isWithinBounds(
  victims: readonly Candidate[],
  { victimsMax, costMsMax }: Field["bounds"],
): boolean {
  return victims.length <= victimsMax && totalMs(victims) < costMsMax;
}

export function totalMs(victims: readonly Candidate[]): number {
  return victims.reduce((total, { costMs }) => total + costMs, 0);
}

/** In a pool without nodes. */
export function chooseBySum(whole: Field): Candidate[] | null {
  const { search, short } = whole;
  for (const pass of passesOf(whole)) {
    const { field } = pass;
    const permissions = [...permissionsIn(field)];
    if (!couldCover(field, permissions)) continue;
    const cover = new Sum(search.shortage);
    const sources = permissions.map(({ kind: { poolLine, runs }, from }) => {
      const rank = rankIn(pass, poolLine, sizeOf(poolLine.need, search.shortage, short));
      return { rank, runs, from };
    });
    const victims = take(
      inOrder(field, sources, (run) => cover.isHelpedBy(run)),
      cover,
    );
    if (victims !== null && isWithinBounds(victims, field.bounds)) return victims;
  }
  return null;
}

/** In which order kinds are taken, the lowest number first: by class, or by size and then by class. */
export function rankIn({ isLargestFirst }: Pass, { preemptionClass }: PoolLine, size: number): number {
  return isLargestFirst ? preemptionClass - 16 * size : preemptionClass;
}

/**
 * How much of a shortage a run covers: the sum over the short keys of the part that it covers there, in
 * billionths, so that equal sums are equal numbers.
 */
export function sizeOf(
  held: readonly number[],
  shortage: readonly number[],
  short: readonly number[],
): number {
  const size = short.reduce((sum, i) => sum + Math.min(1, (held[i] as number) / (shortage[i] as number)), 0);
  return Math.round(size * 1e9);
}
