import { describe, expect, test } from "vitest";
import {
  computeFairShares,
  type SnapshotElement,
  type SnapshotGroup,
  type SnapshotOperation,
} from "./snapshot.ts";

type Amounts = Record<string, number>;

/** Small trees with keys by name; operations are submitted in the order in which they are written. */
interface Tree {
  keys?: Amounts;
  members: Member[];
}

type Member = (keys: readonly string[], nextOrder: () => number) => SnapshotElement;

interface Terms {
  weight?: number;
  reserved?: Amounts;
  limit?: Amounts;
}

function group(name: string, terms: Terms & { mode?: "fifo" }, ...members: Member[]): Member {
  return (keys, nextOrder): SnapshotGroup => ({
    ...elementFields(name, terms, keys),
    kind: "group",
    mode: terms.mode ?? "fair_share",
    members: members.map((member) => member(keys, nextOrder)),
  });
}

function operation(
  name: string,
  demand: Amounts | number,
  terms: Terms & { usage?: Amounts; isGang?: boolean } = {},
): Member {
  return (keys, nextOrder): SnapshotOperation => ({
    ...elementFields(name, terms, keys),
    kind: "operation",
    isGang: terms.isGang ?? false,
    demand: keys.map((key) => (typeof demand === "number" ? demand : (demand[key] ?? 0))),
    usage: keys.map((key) => terms.usage?.[key] ?? 0),
    order: nextOrder(),
  });
}

function elementFields(name: string, { weight, reserved, limit }: Terms, keys: readonly string[]) {
  return {
    name,
    ...(weight !== undefined && { weight }),
    ...(reserved && { reserved: keys.map((key) => reserved[key]) }),
    ...(limit && { limit: keys.map((key) => limit[key]) }),
  };
}

function gang(name: string, demand: Amounts | number): Member {
  return operation(name, demand, { isGang: true });
}

function compute({ keys = { gpu: 100 }, members }: Tree) {
  let order = 0;
  const names = Object.keys(keys);
  const root = group("root", {}, ...members)(names, () => order++) as SnapshotGroup;
  return computeFairShares({ total: Object.values(keys), mainKey: 0, root });
}

function sharesOf(tree: Tree): Record<string, number[]> {
  const { shares } = compute(tree);
  return Object.fromEntries([...shares].map(([{ name }, { fairShare }]) => [name, [...fairShare]]));
}

const cases: Record<string, Tree & { want: Record<string, number[]> }> = {
  "demands that fit are met, and an empty group has nothing": {
    members: [group("a", {}, operation("x", 30)), group("b", {}), operation("y", 70)],
    want: { a: [0.3], x: [0.3], b: [0], y: [0.7], root: [1] },
  },
  "what is left after guarantees is divided by weight": {
    members: [
      group("a", { reserved: { gpu: 40 } }, operation("x", 100)),
      group("b", { weight: 3 }, operation("y", 100)),
    ],
    want: { a: [0.55], b: [0.45] },
  },
  "a guarantee that its owner does not use is used by others": {
    members: [group("a", { reserved: { gpu: 80 } }, operation("x", 10)), group("b", {}, operation("y", 100))],
    want: { a: [0.1], b: [0.9] },
  },
  "complementary demands fill both keys": {
    keys: { gpu: 10, mcpu: 10 },
    members: [operation("x", { gpu: 20, mcpu: 10 }), operation("y", { gpu: 10, mcpu: 20 })],
    want: { x: [2 / 3, 1 / 3], y: [1 / 3, 2 / 3] },
  },
  "a share follows the usage first, equally on every key, then goes straight to the demand": {
    keys: { gpu: 100, mcpu: 100 },
    members: [operation("x", 100, { usage: { gpu: 10, mcpu: 40 } }), operation("y", 100)],
    want: { x: [0.25, 0.5], y: [0.5, 0.5] },
  },
  "a limit on one key holds the others back, and only for its owner": {
    keys: { gpu: 100, mcpu: 100 },
    members: [
      group("a", { limit: { gpu: 25 } }, operation("x", 100)),
      group("b", {}, operation("y", { gpu: 60, mcpu: 30 })),
    ],
    want: { a: [0.25, 0.25], b: [0.6, 0.3] },
  },
  "a FIFO group serves one operation after another, whatever weights and guarantees stand below it": {
    members: [
      group(
        "line",
        { mode: "fifo" },
        group("p", { weight: 1 }, operation("x", 60)),
        group("q", { weight: 9, reserved: { gpu: 30 } }, operation("y", 60), operation("z", 60)),
      ),
    ],
    want: { x: [0.6], p: [0.6], y: [0.4], z: [0], q: [0.4], line: [1] },
  },
  "a group without reserved guarantees the sum of what its members do": {
    members: [
      group(
        "lab",
        {},
        group("a", { reserved: { gpu: 40 } }, operation("x", 100)),
        group("b", { reserved: { gpu: 20 } }, operation("y", 100)),
      ),
      group("others", {}, operation("z", 100)),
    ],
    want: { lab: [0.8], a: [0.5], b: [0.3], others: [0.2] },
  },
  "a key that is not reserved follows the main key": {
    keys: { gpu: 10, mcpu: 100 },
    members: [
      group("a", { reserved: { gpu: 6 } }, operation("x", { mcpu: 100 })),
      group("b", {}, operation("y", { mcpu: 100 })),
    ],
    want: { a: [0, 0.8], b: [0, 0.2] },
  },
  "below a group, inferred guarantees share what the given ones leave": {
    keys: { gpu: 10, mcpu: 10 },
    members: [
      group(
        "lab",
        { reserved: { gpu: 10, mcpu: 10 } },
        group("a", { reserved: { gpu: 5, mcpu: 8 } }, operation("x", { mcpu: 10 })),
        group("b", { reserved: { gpu: 5 } }, operation("y", { mcpu: 10 })),
      ),
    ],
    want: { a: [0, 0.8], b: [0, 0.2] },
  },
  "a jump that does not fit leaves what was just below it": {
    // At level 0.5 x has all the gpu it wants and would at once take 0.5 mcpu, of which y leaves 0.25.
    keys: { gpu: 10, mcpu: 10 },
    members: [
      operation("x", { gpu: 5, mcpu: 6 }, { usage: { gpu: 5 } }),
      operation("y", { mcpu: 10 }, { weight: 1.5 }),
    ],
    want: { x: [0.5, 0], y: [0, 0.75] },
  },
  "the gang with the smallest part gives up first": {
    members: [gang("whale", 90), gang("a", 30), gang("b", 30), gang("c", 30)],
    want: { whale: [0], a: [0.3], b: [0.3], c: [0.3] },
  },
  "of equal gangs the last one submitted gives up": {
    members: [group("p", {}, gang("x", 60)), group("q", {}, gang("y", 60))],
    want: { x: [0.6], y: [0] },
  },
  "behind a gang that gives up, the line moves on": {
    members: [group("line", { mode: "fifo" }, gang("whale", 120), gang("x", 70), operation("y", 50))],
    want: { whale: [0], x: [0.7], y: [0.3] },
  },
  "a key of which the pool has nothing takes no part": {
    keys: { gpu: 0, mcpu: 10 },
    members: [group("a", { reserved: { gpu: 2 }, limit: { gpu: 3 } }, operation("x", { gpu: 4, mcpu: 20 }))],
    want: { a: [0, 1], x: [0, 1] },
  },
  "an empty pool has nothing to give": {
    keys: { gpu: 0 },
    members: [group("a", { reserved: { gpu: 2 } }, operation("x", 4), gang("y", 4)), operation("z", 1)],
    want: { root: [0], a: [0], x: [0], y: [0], z: [0] },
  },
};

describe("fair shares (9.1, 9.2)", () => {
  for (const [name, { want, ...tree }] of Object.entries(cases)) {
    test(name, () => {
      const shares = sharesOf(tree);
      for (const [element, share] of Object.entries(want)) {
        expect(shares[element], element).toHaveLength(share.length);
        share.forEach((part, key) => {
          expect(shares[element]![key], element).toBeCloseTo(part, 9);
        });
      }
    });
  }
});

test("guarantees that exceed what exists shrink by one factor on all keys, and the group is named (9.1)", () => {
  const { shares, overcommitted } = compute({
    keys: { gpu: 100, mcpu: 100 },
    members: [
      group("a", { reserved: { gpu: 30, mcpu: 10 } }, operation("x", 100)),
      group("b", { reserved: { gpu: 90, mcpu: 10 } }, operation("y", 100)),
    ],
  });
  const guarantees = Object.fromEntries([...shares].map(([{ name }, { guarantee }]) => [name, guarantee]));
  expect(guarantees.a![0]).toBeCloseTo(0.25, 9);
  expect(guarantees.a![1]).toBeCloseTo(10 / 120, 9);
  expect(guarantees.b![0]).toBeCloseTo(0.75, 9);
  expect(overcommitted.map(({ name }) => name)).toEqual(["root"]);
});

test("steep and shallow curves in one group do not blur each other", () => {
  // The weights span twelve orders of magnitude; the light ones must still share what is left exactly.
  const shares = sharesOf({
    members: [
      operation("heavy", 50, { weight: 1e9 }),
      operation("light", 100, { weight: 1e-3 }),
      operation("lighter", 100, { weight: 1e-3 }),
    ],
  });
  expect(shares.heavy![0]).toBeCloseTo(0.5, 12);
  expect(shares.light![0]).toBeCloseTo(0.25, 12);
  expect(shares.lighter![0]).toBeCloseTo(0.25, 12);
});
