// Random worlds of discipline `fair_share`, followed by somebody who only hears the events: after every step its
// state is sound and at rest, and so is one that begins with a snapshot.

import { expect, test } from "vitest";
import { createState, evolve, restoreState, resume, snapshotOf } from "../../src/engine/index.ts";
import { violations } from "../../src/engine/invariants.fixture.ts";
import { loadScenarios, runScenario } from "../../src/simulator/index.ts";
import { randomFairWorld } from "./random-fair-world.ts";

const first = Number(process.env.SEED ?? 1);
const seeds = Array.from({ length: 10 }, (_, index) => first + index);

for (const kind of ["quota", "nodes"] as const) {
  test.each(seeds)(`${kind}, world %i: a replay is sound and at rest after every step`, (seed) => {
    const loaded = loadScenarios("random.json", JSON.stringify(randomFairWorld(seed, kind)));
    if (!loaded.ok) return expect(loaded.problems).toEqual([]);
    let follower = createState();
    for (const story of loaded.scenarios) {
      runScenario(story, ({ step, atSeconds, events }) => {
        for (const event of events) evolve(follower, event);
        const nowMs = atSeconds * 1000;
        resume(follower, nowMs);
        expect(violations(follower, nowMs), `step ${step}`).toEqual([]);
        if ((step ?? 0) % 7 === 0) follower = restoreState(structuredClone(snapshotOf(follower)));
      });
    }
  });
}
