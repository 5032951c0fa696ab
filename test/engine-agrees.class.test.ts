// The engine against the reference, in random worlds of discipline `class`. A failure names its seed;
// `SEED=17 npx vitest run test/engine-agrees.class.test.ts` repeats it.

import { expect, test } from "vitest";
import { describeResult, loadScenarios, runScenario } from "../src/simulator/index.ts";
import { randomWorld } from "./reference/random-world.ts";

const { SEED, SEEDS = "300" } = process.env;
const seeds =
  SEED === undefined ? Array.from({ length: Number(SEEDS) }, (_, index) => index + 1) : [Number(SEED)];

test.each(seeds)("seed %i: the engine and the reference see the same", (seed) => {
  const loaded = loadScenarios(`seed ${seed}`, JSON.stringify(randomWorld(seed, "class")));
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  for (const scenario of loaded.scenarios) {
    const result = runScenario(scenario);
    expect(result.failures, describeResult(result, undefined).join("\n")).toEqual([]);
  }
});
