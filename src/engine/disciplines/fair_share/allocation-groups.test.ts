import { expect, test } from "vitest";
import { type AllocationGroup, type SplitInput, splitAllocationGroups } from "./allocation-groups.ts";

const N: AllocationGroup = "non_preemptible";
const A: AllocationGroup = "aggressively_preemptible";
const P: AllocationGroup = "preemptible";

interface Case extends Partial<SplitInput> {
  want: AllocationGroup[];
}

/** Allocations of a tenth each, in a pool of one key, unless a case says otherwise. */
const cases: Record<string, Case> = {
  "the oldest are protected best, and usage before an allocation decides": {
    fairShare: [0.4],
    demandShare: [1],
    want: [N, A, A, A, P, P],
  },
  "an allocation that crosses the line is still protected": {
    fairShare: [0.35],
    demandShare: [1],
    want: [N, A, A, A, P, P],
  },
  "without a fair share everything is preemptible": {
    fairShare: [0],
    demandShare: [1],
    want: [P, P, P, P, P, P],
  },
  "none is preemptible if the fair share covers the demand": {
    fairShare: [0.6],
    demandShare: [0.6],
    want: [N, N, A, A, A, A],
  },
  "nor is any then above a lower threshold": {
    fairShare: [0.6],
    demandShare: [0.6],
    preemptionThreshold: 0.5,
    want: [N, N, A, A, A, A],
  },
  "usage below the threshold is protected": {
    fairShare: [0.2],
    demandShare: [1],
    protectedUsage: [25],
    want: [N, N, N, P, P, P],
  },
  "a threshold that names two keys protects while both are below": {
    total: [100, 100],
    allocations: Array.from({ length: 4 }, () => [10, 20]),
    fairShare: [0],
    demandShare: [1],
    protectedUsage: [30, 30],
    want: [N, N, P, P],
  },
  "of several keys, only those count on which the demand exceeds the fair share": {
    total: [100, 100],
    shareKeys: [0, 1],
    allocations: Array.from({ length: 4 }, () => [10, 30]),
    fairShare: [0.2, 0.9],
    demandShare: [1, 0.9],
    want: [N, A, P, P],
  },
  "if the demand exceeds the fair share nowhere, one key below its line is enough": {
    total: [100, 100],
    shareKeys: [0, 1],
    allocations: Array.from({ length: 3 }, () => [10, 1]),
    fairShare: [0.3, 0.3],
    demandShare: [0.3, 0.03],
    want: [N, N, N],
  },
  "nobody is better protected than an older allocation": {
    fairShare: [0.3],
    demandShare: [1],
    aggressiveThreshold: 2,
    preemptionThreshold: 1,
    want: [N, N, N, N, N, N],
  },
};

for (const [name, { want, ...given }] of Object.entries(cases)) {
  test(name, () => {
    const groups = splitAllocationGroups({
      allocations: want.map(() => [10]),
      total: [100],
      shareKeys: [0],
      fairShare: [0],
      demandShare: [0],
      preemptionThreshold: 1,
      aggressiveThreshold: 0.2,
      protectedUsage: [],
      ...given,
    });
    expect(groups).toEqual(want);
  });
}
