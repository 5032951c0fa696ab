// The engine and the reference scheduler on random worlds: every step must look the same from outside.
// A failure names its world; `SEED=17 npx vitest run test/reference/agreement.test.ts` plays others.

import { expect, test } from "vitest";
import { loadScenarios, runScenario } from "../../src/simulator/index.ts";
import { randomFairWorld } from "./random-fair-world.ts";
import { randomNodeWorld, randomWorld } from "./random-world.ts";
import type { Scenario } from "./scenario.ts";

const WORLDS = 60;
const first = Number(process.env.SEED ?? 1);
const seeds = Array.from({ length: WORLDS }, (_, index) => first + index);

const kinds: Record<string, (seed: number) => Scenario> = {
  "discipline priority": (seed) => randomWorld(seed, "priority"),
  "discipline class": (seed) => randomWorld(seed, "class"),
  "pools of both disciplines": (seed) => randomWorld(seed, "mixed"),
  "priority on nodes": (seed) => randomNodeWorld(seed, "priority"),
  "class on nodes": (seed) => randomNodeWorld(seed, "class"),
  "discipline fair_share": (seed) => randomFairWorld(seed, "quota"),
  "fair_share on nodes": (seed) => randomFairWorld(seed, "nodes"),
};

for (const [kind, worldOf] of Object.entries(kinds)) {
  test.each(seeds)(`${kind}, world %i`, (seed) => {
    const loaded = loadScenarios("random.json", JSON.stringify(worldOf(seed)));
    if (!loaded.ok) return expect(loaded.problems).toEqual([]);
    const wrong = loaded.scenarios.flatMap((story) => runScenario(story).failures);
    expect(wrong).toEqual([]);
  });
}
