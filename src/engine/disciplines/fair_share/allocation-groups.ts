// How well an operation's allocations are protected: the oldest within its fair share best (9.5).

import { isShareAbove, isShareBelow } from "./satisfaction.ts";

export type AllocationGroup = "non_preemptible" | "aggressively_preemptible" | "preemptible";

export interface SplitInput {
  /** Units per key of the pool: NP work first, then by the start of their current work, oldest first. */
  readonly allocations: readonly (readonly number[])[];
  /** The pool's units per key. */
  readonly total: readonly number[];
  /** Which keys of the pool take part in shares; the two vectors below follow this order. */
  readonly shareKeys: readonly number[];
  readonly fairShare: readonly number[];
  readonly demandShare: readonly number[];
  readonly preemptionThreshold: number;
  readonly aggressiveThreshold: number;
  /** Usage per key of the pool below which everything is protected; undefined for a key it does not name. */
  readonly protectedUsage: readonly (number | undefined)[];
}

/** The group of each allocation, in the order of the input. */
export function splitAllocationGroups(input: SplitInput): AllocationGroup[] {
  const { allocations, total, shareKeys, fairShare, demandShare } = input;
  const shareIndices = shareKeys.map((_, index) => index);
  const lacking = shareIndices.filter((index) => isShareAbove(demandShare[index]!, fairShare[index]!));
  const before = total.map(() => 0);

  const isBelow = (threshold: number): boolean => {
    const isKeyBelow = (index: number): boolean => {
      const key = shareKeys[index]!;
      const usage = total[key]! > 0 ? before[key]! / total[key]! : 0;
      return isShareBelow(usage, fairShare[index]! * threshold);
    };
    return lacking.length > 0 ? lacking.every(isKeyBelow) : shareIndices.some(isKeyBelow);
  };
  const groupNow = (): AllocationGroup => {
    if (isBelow(input.aggressiveThreshold) || isUsageProtected(before, input.protectedUsage)) {
      return "non_preemptible";
    }
    if (lacking.length === 0 || isBelow(input.preemptionThreshold)) return "aggressively_preemptible";
    return "preemptible";
  };

  let group: AllocationGroup = "non_preemptible";
  return allocations.map((units) => {
    group = lessProtected(group, groupNow());
    for (let key = 0; key < units.length; key++) before[key]! += units[key]!;
    return group;
  });
}

function isUsageProtected(usage: readonly number[], threshold: readonly (number | undefined)[]): boolean {
  const named = usage.flatMap((units, key) => (threshold[key] === undefined ? [] : [units < threshold[key]]));
  return named.length > 0 && named.every(Boolean);
}

const PROTECTION: readonly AllocationGroup[] = ["preemptible", "aggressively_preemptible", "non_preemptible"];

function lessProtected(a: AllocationGroup, b: AllocationGroup): AllocationGroup {
  return PROTECTION.indexOf(a) <= PROTECTION.indexOf(b) ? a : b;
}
