// Random worlds on nodes: fragments, gangs, labels, homes, drains and losses, with the full check after every step.
// A failure names its seed; `SEED=17 npx vitest run src/engine/placement/random-nodes.test.ts` repeats it.

import { expect, test } from "vitest";
import type { Command } from "../commands.ts";
import { type Decision, decide, preview } from "../decide.ts";
import { violations } from "../invariants.fixture.ts";
import type { ComponentName, Labels, NodeName, PoolName, RequestId, RequestSpec } from "../records.ts";
import type { Resources } from "../resources.ts";
import type { DisciplineName } from "../settings.ts";
import { snapshotOf } from "../snapshot.ts";
import { createState, type EngineState } from "../state.ts";
import { nextWakeMs } from "../timers.ts";

const { SEED, SEEDS = "10" } = process.env;
const seeds =
  SEED === undefined ? Array.from({ length: Number(SEEDS) }, (_, index) => index + 1) : [Number(SEED)];
const POOL = "p" as PoolName;
const COMPONENTS = ["red", "blue", "green"] as ComponentName[];
const NODES = ["n1", "n2", "n3", "n4", "n5"] as NodeName[];

for (const discipline of ["priority", "class", "fair_share"] as const) {
  test.each(seeds)(`seed %i: invariants hold on nodes in discipline ${discipline}`, (seed) => {
    const int = diceOf(seed);
    const state = createState();
    let nowMs = 0;
    const send = (command: Command, step: number) => {
      const before = JSON.stringify(snapshotOf(state));
      const expected = preview(state, command, nowMs);
      expect(JSON.stringify(snapshotOf(state)), `step ${step}: a preview changes nothing`).toBe(before);
      const decision = decide(state, command, nowMs);
      expect(inAnyOrder(decision), `step ${step}: the preview was right`).toEqual(inAnyOrder(expected));
      if (decision.outcome === "refused") expect(decision.bug, `step ${step}`).toBeUndefined();
      expect(violations(state, nowMs), `step ${step}, ${command.kind}`).toEqual([]);
    };
    for (const command of someWorld(int, discipline)) send(command, 0);
    for (let step = 1; step <= 60; step++) {
      if (int(0, 2) === 0) {
        const wakeMs = nextWakeMs(state) ?? Number.POSITIVE_INFINITY;
        nowMs = Math.max(nowMs, Math.min(wakeMs, nowMs + int(1, 900) * 1000));
        send({ kind: "tick" }, step);
      }
      send(someCommand(int, state, step), step);
    }
  });
}

/** Facts about different elements, and the kinds that a decision looked at, have no order. */
function inAnyOrder(decision: Decision): string[] {
  if (decision.outcome === "refused") return [decision.refusal.code];
  const sorted = (facts: readonly object[]) => facts.map((fact) => JSON.stringify(fact)).sort();
  return decision.events.map((event) =>
    JSON.stringify({
      ...event,
      ...(event.kind === "starvationChanged" ? { changes: sorted(event.changes) } : {}),
      ...(event.kind === "preemptionDecided" ? { considered: sorted(event.considered) } : {}),
    }),
  );
}

type Int = (min: number, max: number) => number;
const pick = <T>(int: Int, values: readonly T[]): T => values[int(0, values.length - 1)] as T;
const chance = (int: Int, percent: number): boolean => int(1, 100) <= percent;

function* someWorld(int: Int, discipline: DisciplineName): Generator<Command> {
  const settings = {
    backfill: pick(int, ["easy", "none", "opportunistic"] as const),
    maxVictims: pick(int, [null, null, 1, 2]),
    minRuntimeMs: pick(int, [0, 0, 60_000]),
  };
  yield { kind: "createPool", name: POOL, discipline, settings };
  for (const component of COMPONENTS) {
    const home = chance(int, 25) ? { zone: pick(int, ["a", "b"]) } : null;
    const policy = { pool: POOL, component, priority: int(0, 3), reserved: { gpu: int(0, 3) }, home };
    yield { kind: "attachPolicy", policy };
  }
  for (const name of NODES.slice(0, int(2, 5))) yield someNode(int, name);
}

function someNode(int: Int, name: NodeName): Command {
  const capacity: Resources = {
    gpu: int(1, 5),
    ...(chance(int, 60) ? { mcpu: int(2, 8) * 1000 } : {}),
    ...(chance(int, 20) ? { licence: int(1, 2) } : {}),
    ...(chance(int, 10) ? { step_run: int(1, 3) } : {}),
  };
  const labels: Labels = chance(int, 70) ? { zone: pick(int, ["a", "b"]) } : {};
  return {
    kind: "putNode",
    node: { name, pool: POOL, capacity, labels, topology: pick(int, ["", "r1", "r2"]) },
  };
}

function someCommand(int: Int, state: EngineState, step: number): Command {
  const roll = int(1, 100);
  const running = [...state.requests.values()].filter(({ progress }) => progress.allocation !== null);
  if (roll <= 50) return { kind: "submitRequest", spec: someRequest(int, step) };
  if (roll <= 75 && running.length > 0) {
    const { spec, progress } = pick(int, running);
    const outcome = progress.allocation?.stop ? "stopped" : pick(int, ["succeeded", "failed"] as const);
    return { kind: "reportEnd", requestId: spec.id, outcome };
  }
  if (roll <= 80) return { kind: "cancelRequest", requestId: `r${int(1, step)}` as RequestId };
  return someNodeCommand(int, state);
}

function someNodeCommand(int: Int, { clockMs }: EngineState): Command {
  const name = pick(int, NODES);
  switch (int(1, 9)) {
    case 1:
    case 2:
      return { kind: "loseNode", name };
    case 3:
    case 4:
      return {
        kind: "drainNode",
        name,
        ...(chance(int, 50) ? { deadlineMs: clockMs + int(0, 600) * 1000 } : {}),
      };
    case 5:
      return { kind: "undrainNode", name };
    case 6:
      return { kind: "suspectNode", name };
    case 7:
      return { kind: "removeNode", name, force: chance(int, 50) };
    default:
      return someNode(int, name);
  }
}

function someRequest(int: Int, step: number): RequestSpec {
  return {
    id: `r${step}` as RequestId,
    component: pick(int, COMPONENTS),
    resources: {
      ...(chance(int, 90) ? { gpu: int(1, 4) } : {}),
      ...(chance(int, 40) ? { mcpu: int(1, 5) * 1000 } : {}),
      ...(chance(int, 10) ? { licence: 1 } : {}),
      step_run: 1,
    },
    preemptible: chance(int, 80),
    preemptionClass: int(0, 10),
    sensitive: chance(int, 5),
    checkpoint: pick(int, ["none", "auto", "manual"] as const),
    checkpointMs: null,
    walltimeMs: chance(int, 50) ? int(1, 60) * 60_000 : null,
    operation: null,
    gang: false,
    nodes: pick(int, [1, 1, 1, 2, 3]),
    constraints: chance(int, 20) ? { zone: pick(int, ["a", "b"]) } : {},
    pools: null,
    retriesMax: null,
    retryDelayMs: chance(int, 20) ? 60_000 : 0,
    requeue: pick(int, ["on_preemption", "never"] as const),
    waitTimeoutMs: null,
    attended: false,
    name: "",
    labels: {},
    note: "",
    submittedBy: "",
  };
}

/** A small generator (mulberry32): the same seed gives the same numbers. */
function diceOf(seed: number): Int {
  let state = seed;
  return (min, max) => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return min + (((value ^ (value >>> 14)) >>> 0) % (max - min + 1));
  };
}
