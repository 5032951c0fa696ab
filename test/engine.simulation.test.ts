// Random commands against the real engine, with the full check after every step. A failure names its seed;
// `SEED=17 npx vitest run test/engine.simulation.test.ts` repeats it.

import { describe, expect, test } from "vitest";
import { simulate } from "../src/simulator/index.ts";

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

test("the simulation reaches what it is there for", () => {
  const reached = new Set<string>();
  for (let seed = 1000; seed < 1080; seed++) {
    for (const what of simulate(seed, { steps: 80, discipline: "priority" }).counts.keys()) reached.add(what);
  }
  const wanted = [
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
  ];
  expect(wanted.filter((what) => !reached.has(what))).toEqual([]);
});
