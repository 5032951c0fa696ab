// How usage compares with the fair share: status and order of service (9.3, 9.6). Vectors are fractions of
// the pool over the share keys.

import { SHARE_EPSILON } from "./tolerances.ts";

export interface Standing {
  readonly usage: readonly number[];
  readonly demand: readonly number[];
  readonly fairShare: readonly number[];
}

export function isShareBelow(share: number, bound: number): boolean {
  return share < bound - SHARE_EPSILON;
}

export function isShareAbove(share: number, bound: number): boolean {
  return share > bound + SHARE_EPSILON;
}

/** Whether the fair share covers the whole demand on every key. */
function isDemandCovered({ demand, fairShare }: Standing): boolean {
  return demand.every((wanted, key) => !isShareAbove(wanted, fairShare[key]!));
}

/** Whether the element has less than it should on every key on which it still lacks something (9.3). */
export function isBelowFairShare(standing: Standing, tolerance: number): boolean {
  const { usage, demand, fairShare } = standing;
  const factor = isDemandCovered(standing) ? 1 : tolerance;
  let lacks = false;
  for (let key = 0; key < usage.length; key++) {
    if (!isShareAbove(demand[key]!, usage[key]!)) continue;
    if (!isShareBelow(usage[key]!, fairShare[key]! * factor)) return false;
    lacks = true;
  }
  return lacks;
}

/** Usage ÷ fair share; the lowest is served first (9.6). */
export function satisfaction({ usage, demand, fairShare }: Standing): number {
  let largest = 0;
  let largestLacking = -1;
  let smallest = Number.POSITIVE_INFINITY;
  let isAbove = false;
  for (let key = 0; key < usage.length; key++) {
    const share = fairShare[key]!;
    if (isShareAbove(usage[key]!, share)) isAbove = true;
    const hasShare = share > SHARE_EPSILON;
    // On a key without fair share only usage counts, and nothing can satisfy it.
    const ratio = hasShare
      ? usage[key]! / share
      : isShareAbove(usage[key]!, share)
        ? Number.POSITIVE_INFINITY
        : 0;
    largest = Math.max(largest, ratio);
    if (hasShare) smallest = Math.min(smallest, ratio);
    if (isShareAbove(demand[key]!, share)) largestLacking = Math.max(largestLacking, ratio);
  }
  if (smallest === Number.POSITIVE_INFINITY) return smallest;
  if (isAbove) return largest;
  return largestLacking >= 0 ? largestLacking : smallest;
}

/** A pool without units of a key has no fractions of it, whatever is asked for. */
export function fraction(units: number, total: number): number {
  return total > 0 ? units / total : 0;
}
