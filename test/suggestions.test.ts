// Whatever is suggested starts the request (Y8–Y10): random worlds, every waiting request, each suggestion made on a copy of
// the state. A failure names its seed.

import { expect, test } from "vitest";
import {
  type Command,
  createState,
  decide,
  type EngineState,
  explain,
  policiesOf,
  type RequestId,
  type RequestSpec,
  requestIds,
  requestOf,
  restoreState,
  resume,
  snapshotOf,
  violations,
} from "../src/engine/index.ts";
import { answer } from "../src/foresight/answer.ts";
import type { Suggestion } from "../src/foresight/index.ts";
import { someCommand, someWorld } from "../src/simulator/simulation/commands.ts";
import { type Random, seededRandom } from "../src/simulator/simulation/random.ts";

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

/** The change that the suggestion describes, as a person would make it. */
function commandOf(state: EngineState, id: RequestId, suggestion: Suggestion): Command {
  const { pool } = suggestion;
  const { component, resources, pools } = (requestOf(state, id) as { readonly spec: RequestSpec }).spec;
  const policy = policiesOf(state, pool).find((one) => one.component === component);
  const update = (change: object): Command => ({ kind: "updateRequest", requestId: id, change });
  const updatePolicy = (part: object): Command => ({
    kind: "updatePolicy",
    policy: { pool, component, ...part },
  });
  switch (suggestion.change) {
    case "fewer_units":
      return update({ resources: { ...suggestion.resources, step_run: resources.step_run } });
    case "fewer_nodes":
      return update({ nodes: suggestion.nodes });
    case "walltime":
      return update({ walltimeMs: suggestion.walltimeMs });
    case "preemptible":
      return update({ preemptible: true });
    case "higher_class":
      return update({ preemptionClass: suggestion.preemptionClass });
    case "another_pool":
      return policy === undefined
        ? { kind: "attachPolicy", policy: { pool, component } }
        : update({ pools: [...(pools ?? []), pool] });
    case "higher_limit":
      return updatePolicy({ limit: { ...policy?.limit, [suggestion.key]: suggestion.limit } });
    case "higher_group_limit": {
      const limit = state.pools.get(pool)?.groups.get(suggestion.group)?.record.limit;
      const group = { name: suggestion.group, limit: { ...limit, [suggestion.key]: suggestion.limit } };
      return { kind: "updateGroup", pool, group };
    }
    case "more_reserved":
      return updatePolicy({ reserved: { ...policy?.reserved, [suggestion.key]: suggestion.reserved } });
    case "higher_priority":
      return updatePolicy({ priority: suggestion.priority });
    case "more_capacity":
      return { kind: "updatePool", name: pool, capacity: suggestion.capacity };
    case "node_back": {
      const node = state.nodes.get(suggestion.node)?.record;
      const isDrained = node?.state === "draining" || node?.state === "drained";
      return isDrained
        ? { kind: "undrainNode", name: suggestion.node }
        : { kind: "putNode", node: { name: suggestion.node } };
    }
    case "run_ends":
      return { kind: "tick", ends: [{ requestId: suggestion.requestId, outcome: "succeeded" }] };
    case "ahead_withdrawn":
      return { kind: "cancelRequest", requestId: suggestion.requestId };
  }
}

function startsOnCopy(state: EngineState, id: RequestId, suggestion: Suggestion, nowMs: number): string {
  const copy = restoreState(structuredClone(snapshotOf(state)));
  resume(copy, nowMs);
  const decision = decide(copy, commandOf(state, id, suggestion), nowMs);
  if (decision.outcome === "refused") return `refused: ${decision.refusal.message}`;
  const progress = requestOf(copy, id)?.progress;
  if (progress?.allocation?.pool === suggestion.pool) return "now";
  return progress?.hold?.pool === suggestion.pool ? "after" : "waits";
}
