import { describe, expect, test } from "vitest";
import type { AllocationGroupsScenario, SharesScenario } from "../../protocol/index.ts";
import { judgeAllocationGroups, judgeShares } from "./snapshots.ts";

const shares: SharesScenario = {
  kind: "shares",
  total: { gpu: 10, mcpu: 1000 },
  main_key: "gpu",
  tree: {
    name: "root",
    type: "group",
    children: [
      { name: "small", type: "operation", demand: { gpu: 2 } },
      {
        name: "line",
        type: "group",
        mode: "fifo",
        children: [
          { name: "first", type: "operation", demand: { gpu: 6 } },
          { name: "second", type: "operation", demand: { gpu: 6 } },
        ],
      },
    ],
  },
  expect: { small: { gpu: 0.2, mcpu: 0 }, line: { gpu: 0.8 }, first: { gpu: 0.6 }, second: { gpu: 0.2 } },
};

describe("share trees (9.1, 9.2)", () => {
  test("what comes out as expected has no failure; members stand in the order of submission", () => {
    expect(judgeShares(shares)).toEqual([]);
  });

  const cases: Record<string, { change: Partial<SharesScenario>; want: object }> = {
    "another number": {
      change: { expect: { small: { gpu: 0.3 } } },
      want: { field: "expect.small.gpu", expected: 0.3, actual: 0.2 },
    },
    "a name that nobody has": {
      change: { expect: { tiny: { gpu: 1 } } },
      want: { field: "expect.tiny", actual: null },
    },
    "a main key that does not exist": {
      change: { main_key: "tpu" },
      want: { field: "main_key", actual: "tpu" },
    },
    "a root that is no group": {
      change: { tree: { name: "a", type: "operation" } },
      want: { field: "tree.type", actual: "operation" },
    },
  };
  for (const [name, { change, want }] of Object.entries(cases)) {
    test(name, () => expect(judgeShares({ ...shares, ...change })).toMatchObject([want]));
  }

  test("a wider tolerance forgives", () => {
    expect(judgeShares({ ...shares, expect: { small: { gpu: 0.21 } }, tolerance: 0.05 })).toEqual([]);
  });
});

describe("groups of allocations (9.5)", () => {
  const groups: AllocationGroupsScenario = {
    kind: "allocation_groups",
    total: { gpu: 10 },
    operation: {
      fair_share: { gpu: 0.2 },
      demand_share: { gpu: 1 },
      allocations: ["a", "b", "c"].map((id) => ({ id, resources: { gpu: 1 } })),
    },
    expect: { a: "non_preemptible", b: "aggressively_preemptible", c: "preemptible" },
  };

  test("what comes out as expected has no failure", () => expect(judgeAllocationGroups(groups)).toEqual([]));

  test("settings move the lines", () => {
    expect(
      judgeAllocationGroups({
        ...groups,
        settings: {
          non_preemptible_resource_usage_threshold: { gpu: 2 },
          preemption_satisfaction_threshold: 2,
        },
        expect: { a: "non_preemptible", b: "non_preemptible", c: "aggressively_preemptible" },
      }),
    ).toEqual([]);
  });

  test("another group, and an allocation that does not exist", () => {
    expect(
      judgeAllocationGroups({ ...groups, expect: { a: "preemptible", z: "preemptible" } }),
    ).toMatchObject([
      { field: "expect.a", expected: "preemptible", actual: "non_preemptible" },
      { field: "expect.z", actual: null },
    ]);
  });
});
