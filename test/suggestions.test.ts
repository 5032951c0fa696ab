// Whatever is suggested starts the request (Y8–Y10): random worlds, every waiting request, each suggestion made on a copy of
// the state. A failure names its seed.

import { expect, test } from "vitest";
import {
  type Command,
  type ComponentName,
  createState,
  decide,
  type EngineState,
  type Explanation,
  explain,
  type RequestId,
  requestIds,
  requestOf,
  snapshotOf,
} from "../src/engine/index.ts";
import { violations } from "../src/engine/invariants.fixture.ts";
import { answer } from "../src/foresight/answer.ts";
import { createBudget } from "../src/foresight/budget.ts";
import { suggestionsFor } from "../src/foresight/suggestions.ts";
import { someCommand, someWorld } from "./simulation/engine/commands.ts";
import { type Random, seededRandom } from "./simulation/engine/random.ts";
import { pool, request, submit } from "./simulation/rig.ts";
import { startsOnCopy } from "./support/suggested.ts";

const SEEDS = 2;
const STEPS = 40;
const TIMEOUT_MS = 600_000;

test.each(["priority", "class", "fair_share"] as const)(
  "%s: what is suggested is true, and as small as it can be",
  (discipline) => {
    const seen = { asked: 0, helped: 0, suggestions: 0, minimal: 0, kinds: new Set<string>() };
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = seededRandom(seed);
      const state = createState();
      let nowMs = 0;
      for (const command of someWorld(random, discipline, seed % 2 === 0)) decide(state, command, nowMs);
      for (let step = 0; step < STEPS; step++) {
        nowMs += random.pick([0, 0, 1, 30]) * 1000;
        decide(state, { kind: "tick" }, nowMs); // As the leader does.
        decide(state, someSubmission(random, state, step), nowMs);
        decide(state, someCommand(random, state, step + STEPS), nowMs);
        if (step % 5 !== 4) continue;
        const where = `seed ${seed}, step ${step}`;
        const before = JSON.stringify(snapshotOf(state));
        for (const id of waiting(state)) {
          const { suggestions } = answer(
            state,
            { kind: "explain", requestId: id, suggestions: true, pools: null },
            nowMs,
          );
          seen.asked++;
          if (suggestions.all.length > 0) seen.helped++;
          for (const suggestion of suggestions.all) {
            seen.suggestions++;
            if (suggestion.minimal) seen.minimal++;
            seen.kinds.add(suggestion.change);
            expect(
              startsOnCopy(state, id, suggestion, nowMs),
              `${where}: ${JSON.stringify(suggestion)}`,
            ).toBe(suggestion.starts);
          }
        }
        expect(JSON.stringify(snapshotOf(state)), where).toBe(before);
        expect(violations(state, nowMs), where).toEqual([]);
      }
    }
    expect(seen.asked).toBeGreaterThan(50);
    expect(seen.helped).toBeGreaterThan(0);
    expect(seen.minimal / seen.suggestions).toBeGreaterThan(0.95);
    expect(seen.kinds.size).toBeGreaterThan(2);
  },
  TIMEOUT_MS,
);

test("what a spent budget has not tried is not said to be too little (Y9, Y12)", () => {
  const state = createState();
  const component = "team" as ComponentName;
  decide(state, { kind: "createPool", name: pool("main"), capacity: { gpu: 100 } }, 0);
  decide(state, { kind: "attachPolicy", policy: { pool: pool("main"), component } }, 0);
  for (const [id, gpu] of [
    ["runs", 63],
    ["first", 50],
    ["waits", 90],
  ] as const)
    decide(state, submit(id, { component, resources: { gpu } }), 0);
  const facts = explain(state, request("waits"), 0) as Explanation;
  const suggested = (decisions: number) => {
    const budget = createBudget({ cpuMs: Number.POSITIVE_INFINITY, decisions });
    return suggestionsFor(state, facts, { nowMs: 0, budget, reaches: () => true });
  };
  const all = suggested(80);
  expect(all.isTruncated).toBe(false);
  const smallest = new Set(all.all.filter(({ minimal }) => minimal).map((each) => JSON.stringify(each)));
  expect(smallest.size).toBeGreaterThan(0);
  for (let decisions = 0; decisions < 80; decisions++) {
    const wrong = suggested(decisions).all.filter(
      (each) => each.minimal && !smallest.has(JSON.stringify(each)),
    );
    expect(wrong, `${decisions} decisions`).toEqual([]);
  }
});

/** More is wanted than there is, so that many wait. */
function someSubmission(random: Random, state: EngineState, step: number): Command {
  for (;;) {
    const command = someCommand(random, state, step);
    if (command.kind === "submitRequest") return command;
  }
}

function* waiting(state: EngineState): Iterable<RequestId> {
  for (const id of [...requestIds(state)]) {
    const progress = requestOf(state, id)?.progress;
    if (progress?.status !== "queued" || progress.hold !== null) continue;
    if ((explain(state, id, state.clockMs)?.pools.length ?? 0) > 0) yield id;
  }
}
