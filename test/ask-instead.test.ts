// What would happen if a request had asked for less is what happens on a copy of the state in which it has (14).
// A failure names its seed.

import { expect, test } from "vitest";
import {
  createState,
  type Decision,
  decide,
  type EngineState,
  preview,
  type RequestId,
  type RequestSpec,
  requestIds,
  requestOf,
  restoreState,
  resume,
  snapshotOf,
  violations,
} from "../src/engine/index.ts";
import { someCommand, someWorld } from "../src/simulator/simulation/commands.ts";
import { seededRandom } from "../src/simulator/simulation/random.ts";

const DISCIPLINES = ["priority", "class", "fair_share"] as const;
const SEEDS = 10;
const STEPS = 60;
const TIMEOUT_MS = 300_000;

test.each(DISCIPLINES)(
  "%s: asking for less in the same place is judged as on a copy",
  (discipline) => {
    const seen = { started: 0, waits: 0 };
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = seededRandom(seed);
      const state = createState();
      let nowMs = 0;
      for (const command of someWorld(random, discipline, seed % 2 === 0)) decide(state, command, nowMs);
      for (let step = 0; step < STEPS; step++) {
        nowMs += random.pick([0, 0, 1, 30]) * 1000;
        decide(state, { kind: "tick" }, nowMs); // As the leader does.
        decide(state, someCommand(random, state, step), nowMs);
        const spec = smaller(state);
        if (spec === undefined) continue;

        const before = JSON.stringify(snapshotOf(state));
        const starts = isGranted(preview(state, { kind: "askInstead", spec }, nowMs), spec.id);
        expect(JSON.stringify(snapshotOf(state)), `seed ${seed}, step ${step}`).toBe(before);
        expect(violations(state, nowMs), `seed ${seed}, step ${step}`).toEqual([]);
        expect(starts, `seed ${seed}, step ${step}`).toBe(startsOnCopy(state, spec, nowMs));
        seen[starts ? "started" : "waits"]++;
      }
    }
    expect(seen.started).toBeGreaterThan(0);
    expect(seen.waits).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);

/** The first that waits, holds nothing and could ask for less, asking for one unit of everything. */
function smaller(state: EngineState): RequestSpec | undefined {
  for (const id of requestIds(state)) {
    const { spec, progress } = requestOf(state, id) as NonNullable<ReturnType<typeof requestOf>>;
    const isPlain = progress.attempt === 1 && progress.hold === null && !progress.delayed;
    if (progress.status !== "queued" || !isPlain) continue;
    const resources = Object.fromEntries(Object.keys(spec.resources).map((key) => [key, 1]));
    if (JSON.stringify(resources) !== JSON.stringify(spec.resources)) return { ...spec, resources };
  }
  return undefined;
}

function startsOnCopy(state: EngineState, spec: RequestSpec, nowMs: number): boolean {
  const snapshot = structuredClone(snapshotOf(state));
  const requests = snapshot.requests.map((one) => (one.spec.id === spec.id ? { ...one, spec } : one));
  const copy = restoreState({ ...snapshot, requests });
  for (const pool of copy.guarded) pool.displaced.clear();
  copy.guarded.clear();
  resume(copy, nowMs);
  return isGranted(decide(copy, { kind: "tick" }, nowMs), spec.id);
}

function isGranted(decision: Decision, id: RequestId): boolean {
  expect(decision.outcome).toBe("accepted");
  return (
    decision.outcome === "accepted" &&
    decision.events.some((event) => event.kind === "requestAllocated" && event.requestId === id)
  );
}
