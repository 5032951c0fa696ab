// Random commands against the real engine, with the full check after every step. A failure names its seed;
// `SEED=17 npx vitest run test/engine.simulation.test.ts` repeats it.

import { describe, expect, test } from "vitest";
import type { DisciplineName } from "../src/engine/index.ts";
import { simulate } from "./simulation/engine/simulate.ts";

const { SEED } = process.env;
const seeds = SEED === undefined ? Array.from({ length: 40 }, (_, index) => index + 1) : [Number(SEED)];

describe.each([false, true])("on nodes: %s", (onNodes) => {
  describe.each(["priority", "class", "fair_share"] as const)("discipline %s", (discipline) => {
    test.each(seeds)("seed %i: invariants hold, and a replay reaches the same state", (seed) => {
      const report = simulate(seed, { steps: 60, discipline, onNodes });
      expect(report.steps).toBe(60);
    });
  });
});

test("a fair-share operation whose component was away becomes younger with the record of its first request (9.11)", () => {
  expect(simulate(184, { steps: 100, discipline: "fair_share" }).steps).toBe(100);
});

test("how runs are protected is not remembered while the shares of their operations move unnoticed (9.5)", () => {
  expect(simulate(1_054, { steps: 100, discipline: "fair_share" }).steps).toBe(100);
});

/** What eighty worlds must come upon, or the checks have had nothing to check. */
const reached: Record<string, { discipline: DisciplineName; onNodes: boolean; wanted: readonly string[] }> = {
  "by priority": {
    discipline: "priority",
    onNodes: false,
    wanted: [
      "hold without victims",
      "hold ended: taken_over",
      "several victims at once",
      "preemption: priority",
      "preemption: reclaim",
      "preemption: administration",
      "attempt ended: lost, queued",
      "restart while victims stop",
      "grant that fills a gap",
      "shielded after too many preemptions",
    ],
  },
  "by class": {
    discipline: "class",
    onNodes: false,
    wanted: [
      "preemption: class",
      "preemption: reclaim",
      "preemption: sensitive",
      "several victims at once",
      "as many victims as max_victims",
      "taken back from a class that is not lower",
      "taken from its own component",
      "taken without a checkpoint",
      "granted at class 10",
      "granted to sensitive work",
    ],
  },
  "by class on nodes": {
    discipline: "class",
    onNodes: true,
    wanted: [
      "preemption: class",
      "gang granted",
      "gang granted across topology groups",
      "gang takes victims",
      "gang as a victim",
      "gang lost with one of its nodes",
      "granted under constraints",
      "granted beside others on a node",
      "granted while a node is draining",
      "granted while a node is suspect",
      "granted while a node is down",
      "node drained",
    ],
  },
};

describe("the simulation reaches what it is there for", () => {
  test.each(Object.entries(reached))("%s", { timeout: 600_000 }, (_, { discipline, onNodes, wanted }) => {
    const found = new Set<string>();
    for (let seed = 1000; seed < 1080; seed++) {
      for (const what of simulate(seed, { steps: 80, discipline, onNodes }).counts.keys()) found.add(what);
    }
    expect(wanted.filter((what) => !found.has(what))).toEqual([]);
  });
});
