// Where requests go on nodes (N2), and that the lists of nodes find what looking at every node would.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { NodeRecord } from "../records.ts";
import type { Node } from "../state.ts";
import { createCluster } from "./cluster.fixture.ts";
import { compareFit, covers, NodeList } from "./node-list.ts";
import { fewestGroups } from "./room.ts";

interface Case {
  readonly nodes: Parameters<typeof createCluster>[0];
  readonly policies?: Record<string, { home?: Record<string, string>; reserved?: Record<string, number> }>;
  readonly mainKey?: string;
  /** Requests in their order. */
  readonly asks: Record<string, Parameters<ReturnType<typeof createCluster>["submit"]>[1]>;
  readonly want: Record<string, string[]>;
}

const gpus = (gpu: number) => ({ resources: { gpu } });
const cases: Record<string, Case> = {
  "best fit leaves the least of the main key": {
    nodes: { a: { capacity: { gpu: 4 } }, b: { capacity: { gpu: 2 } }, c: { capacity: { gpu: 3 } } },
    asks: { x: gpus(2), y: gpus(2), z: gpus(2) },
    want: { x: ["b"], y: ["c"], z: ["a"] },
  },
  "of equally much, the least of the other keys by name is left, then the first by name": {
    nodes: {
      a: { capacity: { gpu: 2, mcpu: 8000, licence: 2 } },
      b: { capacity: { gpu: 2, mcpu: 4000, licence: 2 } },
      c: { capacity: { gpu: 2, mcpu: 9000, licence: 1 } },
      d: { capacity: { gpu: 2, mcpu: 9000, licence: 1 } },
    },
    asks: { x: gpus(2), y: gpus(2), z: gpus(2) },
    want: { x: ["c"], y: ["d"], z: ["b"] },
  },
  "the pool says which key is the main one": {
    nodes: { a: { capacity: { gpu: 1, mcpu: 9000 } }, b: { capacity: { gpu: 4, mcpu: 5000 } } },
    mainKey: "mcpu",
    asks: { x: { resources: { gpu: 1, mcpu: 1000 } } },
    want: { x: ["b"] },
  },
  "several nodes are all there or none": {
    nodes: { a: { capacity: { gpu: 2 } }, b: { capacity: { gpu: 2 } }, c: { capacity: { gpu: 2 } } },
    asks: { one: gpus(1), gang: { ...gpus(2), nodes: 3 }, pair: { ...gpus(1), nodes: 2 } },
    want: { one: ["a"], gang: [], pair: [] },
  },
  "as few topology groups as possible": {
    nodes: {
      a1: { capacity: { gpu: 2 }, topology: "a" },
      b1: { capacity: { gpu: 4 }, topology: "b" },
      b2: { capacity: { gpu: 4 }, topology: "b" },
    },
    asks: { pair: { ...gpus(2), nodes: 2 } },
    want: { pair: ["b1", "b2"] },
  },
  "of equally few groups, the one with the least room that is enough": {
    nodes: {
      a1: { capacity: { gpu: 2 }, topology: "a" },
      a2: { capacity: { gpu: 2 }, topology: "a" },
      a3: { capacity: { gpu: 2 }, topology: "a" },
      b1: { capacity: { gpu: 2 }, topology: "b" },
      b2: { capacity: { gpu: 2 }, topology: "b" },
      c1: { capacity: { gpu: 2 }, topology: "c" },
    },
    asks: { pair: { ...gpus(2), nodes: 2 }, one: gpus(2), three: { ...gpus(2), nodes: 3 } },
    want: { pair: ["b1", "b2"], one: ["c1"], three: ["a1", "a2", "a3"] },
  },
  "only nodes with the labels that are asked for": {
    nodes: {
      a: { capacity: { gpu: 2 } },
      b: { capacity: { gpu: 4 }, labels: { model: "new", zone: "1" } },
    },
    asks: { x: { ...gpus(1), constraints: { model: "new" } }, y: { ...gpus(4), constraints: { zone: "1" } } },
    want: { x: ["b"], y: [] },
  },
  "a node without a row for processors does not count them": {
    nodes: { a: { capacity: { gpu: 2 } }, b: { capacity: { gpu: 2, mcpu: 1000 } } },
    asks: { x: { resources: { gpu: 1, mcpu: 64_000 } }, y: { resources: { gpu: 1, mcpu: 64_000 } } },
    want: { x: ["a"], y: ["a"] },
  },
  "a node without a row for GPUs has none": {
    nodes: { a: { capacity: { mcpu: 9000 } }, b: { capacity: { gpu: 2, mcpu: 9000 } } },
    asks: { x: { resources: { mcpu: 1000 } }, y: gpus(1) },
    want: { x: ["a"], y: ["b"] },
  },
  "work that may live in its share only goes home first": {
    nodes: {
      a: { capacity: { gpu: 2 } },
      b: { capacity: { gpu: 4 }, labels: { owner: "team" } },
    },
    policies: { team: { home: { owner: "team" }, reserved: { gpu: 3 } } },
    asks: { any: gpus(1), firm: { ...gpus(1), preemptible: false } },
    want: { any: ["a"], firm: ["b"] },
  },
};

for (const [name, { nodes, policies = { team: {} }, mainKey = null, asks, want }] of Object.entries(cases)) {
  test(name, () => {
    const cluster = createCluster(nodes, { policies, settings: { mainKey, backfill: "none" } });
    for (const [id, ask] of Object.entries(asks)) cluster.submit(id, ask);
    const placed = Object.fromEntries(Object.keys(want).map((id) => [id, cluster.placed(id)]));
    expect(placed).toEqual(want);
  });
}

test("devices are given out lowest first, and never twice", () => {
  const cluster = createCluster({ a: { capacity: { gpu: 4 } }, b: { capacity: { gpu: 4 } } });
  const devices = (id: string) =>
    cluster.state.requests.get(id as never)?.progress.allocation?.placement.map((place) => place.devices);
  cluster.submit("x", gpus(1));
  cluster.submit("y", gpus(2));
  cluster.end("x");
  cluster.submit("z", { ...gpus(2), nodes: 2 });
  expect(devices("y")).toEqual([[1, 2]]);
  expect(devices("z")).toEqual([
    [0, 3],
    [0, 1],
  ]);
});

const groups: Record<string, { rooms: [string, number][]; count: number; want: string[] | null }> = {
  "one group is enough": {
    rooms: [
      ["a", 3],
      ["b", 2],
    ],
    count: 2,
    want: ["b"],
  },
  "equally much room goes by name": {
    rooms: [
      ["b", 2],
      ["a", 2],
    ],
    count: 1,
    want: ["a"],
  },
  "two groups, and no more room than needed": {
    rooms: [
      ["a", 5],
      ["b", 4],
      ["c", 3],
    ],
    count: 7,
    want: ["c", "b"],
  },
  "all of them": {
    rooms: [
      ["a", 1],
      ["b", 1],
    ],
    count: 2,
    want: ["a", "b"],
  },
  "not enough": {
    rooms: [
      ["a", 1],
      ["b", 0],
    ],
    count: 2,
    want: null,
  },
  "no groups": { rooms: [], count: 1, want: null },
};
for (const [name, { rooms, count, want }] of Object.entries(groups)) {
  test(`topology: ${name}`, () => expect(fewestGroups(rooms, count)).toEqual(want));
}

test("a list of nodes finds what looking at every node would, whatever came and went", () => {
  const order = [1, 0];
  const vector = fc.tuple(fc.integer({ min: -1, max: 4 }), fc.integer({ min: 0, max: 4 }));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 0, max: 199 }), vector), { minLength: 50, maxLength: 400 }),
      vector,
      fc.integer({ min: 1, max: 5 }),
      (changes, need, count) => {
        const list = new NodeList(order);
        const nodes = new Map<number, Node>();
        for (const [id, free] of changes) {
          const known = nodes.get(id);
          if (known !== undefined) list.remove(known);
          const node = { record: { name: `n${id}` } as NodeRecord, left: [...free] } as Node;
          nodes.set(id, node);
          list.insert(node);
        }
        const sorted = [...nodes.values()].sort((a, b) => compareFit(a, a.left, b, b.left, order));
        const fitting = sorted.filter((node) => covers(node.left, need));
        expect([...list]).toEqual(sorted);
        expect(list.fitting(need, count)).toEqual(fitting.slice(0, count));
        expect(list.countFitting(need)).toBe(fitting.length);
      },
    ),
    { numRuns: 60 },
  );
});

test("a request that asks for no unit of a node is refused for the nodes alone", () => {
  const cluster = createCluster({ a: { capacity: { gpu: 2 } } });
  cluster.submit("x", { resources: { memory_mb: 1 }, nodes: 2 });
  expect(cluster.state.requests.get("x" as never)?.progress.rejection).toEqual([
    { pool: "pool", code: "over_capacity", key: "nodes", asked: 2, allowed: 1 },
  ]);
  cluster.submit("y", { resources: { memory_mb: 1 }, constraints: { zone: "none" } });
  expect(cluster.state.requests.get("y" as never)?.progress.rejection).toEqual([
    { pool: "pool", code: "over_capacity", key: "nodes", asked: 1, allowed: 0 },
  ]);
});
