// The engine and the reference scheduler on random worlds: every step must look the same from outside.
// A failure names its world; `SEED=17 npx vitest run test/reference/agreement.test.ts` plays others.

import { describe, expect, test } from "vitest";
import { loadScenarios, runScenario } from "../../src/simulator/index.ts";
import { randomWorld } from "./random-world.ts";

const WORLDS = 80;
const first = Number(process.env.SEED ?? 1);
const seeds = Array.from({ length: WORLDS }, (_, index) => first + index);

describe.each(["priority", "class", "mixed"] as const)("discipline %s", (kind) => {
  test.each(seeds)("world %i", (seed) => {
    const scenario = randomWorld(seed, kind);
    const loaded = loadScenarios("random.json", JSON.stringify(scenario));
    if (!loaded.ok) return expect(loaded.problems).toEqual([]);
    const wrong = loaded.scenarios.flatMap((story) => runScenario(story).failures);
    expect(wrong).toEqual([]);
  });
});
