// What a pool keeps of its queue between looks, beside an engine that keeps nothing: the same decisions, whatever was
// tried and taken back before. A failure names its seed; `SEED=17 npx vitest run src/engine/disciplines/queue/kept-indexes.test.ts` repeats it.

import { expect, test } from "vitest";
import type { Command } from "../../commands.ts";
import { decide, preview } from "../../decide.ts";
import { violations } from "../../invariants.fixture.ts";
import {
  type ComponentName,
  type NodeName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
  type RequestSpec,
} from "../../records.ts";
import type { DisciplineName } from "../../settings.ts";
import { createState, type EngineState } from "../../state.ts";

const { SEED, SEEDS = "25" } = process.env;
const seeds =
  SEED === undefined ? Array.from({ length: Number(SEEDS) }, (_, index) => index + 1) : [Number(SEED)];
const POOL = "cluster" as PoolName;
const TEAMS = ["red", "blue", "green", "gold", "pink", "grey"] as ComponentName[];

for (const discipline of ["priority", "class"] as const) {
  test.each(seeds)(`seed %i: nothing depends on what is kept, discipline ${discipline}`, (seed) => {
    const int = diceOf(seed);
    const [keeping, forgetful] = [createState(), createState()];
    let nowMs = 0;
    const both = (command: Command, step: number) => {
      for (const pool of forgetful.pools.values()) pool.order = null;
      const expected = decide(forgetful, command, nowMs);
      if (int(0, 3) === 0) preview(keeping, command, nowMs);
      expect(decide(keeping, command, nowMs), `step ${step}, ${command.kind}`).toEqual(expected);
    };
    for (const command of someWorld(int, discipline)) both(command, 0);
    for (let step = 1; step <= 120; step++) {
      nowMs += int(0, 2) === 0 ? int(1, 60) * 60_000 : int(0, 900);
      both(someCommand(int, keeping, step), step);
      if (step % 20 === 0) expect(violations(keeping, nowMs)).toEqual([]);
    }
  });
}

test("who comes to a pool while others wait there can be stopped for them", () => {
  const state = createState();
  let nowMs = 0;
  const kindsOf = (command: Command) => {
    const decision = decide(state, command, nowMs++);
    return decision.outcome === "accepted" ? decision.events.map(({ kind }) => kind) : [];
  };
  const attach = (component: ComponentName, priority: number) =>
    kindsOf({ kind: "attachPolicy", policy: { pool: POOL, component, priority } });
  const submit = (id: string, component: ComponentName, gpu: number) => {
    const spec = { ...PLAIN_REQUEST, id: id as RequestId, component, resources: { gpu } };
    return kindsOf({ kind: "submitRequest", spec: { ...spec, preemptible: true } });
  };
  const [high, late] = ["high", "late"] as [ComponentName, ComponentName];
  kindsOf({ kind: "createPool", name: POOL, capacity: { gpu: 2 }, discipline: "priority" });
  attach(high, 100);
  submit("first", high, 2);
  submit("waits", high, 2);
  attach(late, 1);
  kindsOf({ kind: "cancelRequest", requestId: "waits" as RequestId });
  kindsOf({ kind: "reportEnd", requestId: "first" as RequestId, outcome: "succeeded" });
  expect(submit("low", late, 1)).toContain("requestAllocated");
  expect(submit("urgent", high, 2)).toContain("preemptionDecided");
});

test("a change that nobody named is found by the checks", () => {
  const state = createState();
  for (const command of someWorld(diceOf(1), "priority")) decide(state, command, 0);
  for (let i = 0; i < 40; i++) {
    const spec = { ...PLAIN_REQUEST, id: `r${i}` as RequestId, component: TEAMS[i % 2] as ComponentName };
    decide(state, { kind: "submitRequest", spec: { ...spec, resources: { gpu: 1 + (i % 2) } } }, 0);
  }
  expect(violations(state, 0)).toEqual([]);
  const pool = state.pools.get(POOL);
  const [poolLine] = pool?.waiting ?? [];
  if (pool === undefined || poolLine === undefined) throw new Error("nobody waits");
  pool.waiting.delete(poolLine);
  const found = violations(state, 0).join("\n");
  expect(found).toContain("the order is kept as");
  expect(found).toContain("the lines by what they ask for are not those that wait");
});

test("who holds only one of the keys is stopped where the node has the others free (N2)", () => {
  const state = createState();
  const send = (command: Command) => expect(decide(state, command, 0).outcome).toBe("accepted");
  send({ kind: "createPool", name: POOL, discipline: "priority" });
  const capacity = { gpu: 1, mcpu: 8 };
  send({ kind: "putNode", node: { name: "n" as NodeName, pool: POOL, capacity } });
  for (const [priority, component] of TEAMS.slice(0, 2).entries()) {
    send({ kind: "attachPolicy", policy: { pool: POOL, component, priority } });
  }
  const ask = (id: string, component: ComponentName, resources: RequestSpec["resources"]) =>
    send({ kind: "submitRequest", spec: { ...PLAIN_REQUEST, id: id as RequestId, component, resources } });
  ask("low", TEAMS[0] as ComponentName, { gpu: 1 });
  ask("high", TEAMS[1] as ComponentName, { gpu: 1, mcpu: 2 });
  expect(state.requests.get("low" as RequestId)?.progress.status).toBe("preempting");
});

test("a hold whose end was only tried is looked at again: its node is still lost (V5, D2)", () => {
  const [expected, actual] = [false, true].map((isTried) => {
    const state = createState();
    const send = (command: Command, isTimeUp = () => false) =>
      expect(decide(state, command, 0, isTimeUp).outcome).toBe("accepted");
    const ask = (
      id: string,
      component: string,
      gpu: number,
      constraints: RequestSpec["constraints"] = {},
    ) => {
      const own = { id: id as RequestId, component: component as ComponentName, resources: { gpu } };
      send({ kind: "submitRequest", spec: { ...PLAIN_REQUEST, ...own, constraints } });
    };
    send({ kind: "createPool", name: POOL, discipline: "priority" });
    for (const zone of ["x", "y", "z"])
      send({
        kind: "putNode",
        node: { name: zone as NodeName, pool: POOL, capacity: { gpu: 4 }, labels: { zone } },
      });
    for (const [priority, component] of TEAMS.slice(0, 2).entries())
      send({ kind: "attachPolicy", policy: { pool: POOL, component, priority } });
    for (const zone of ["x", "y", "z"]) ask(`on ${zone}`, "red", 4, { zone });
    for (const zone of ["x", "z"]) ask(`promised ${zone}`, "blue", 4, { zone });
    for (const id of ["a", "b", "c"]) ask(id, "red", 1);
    const cut = () => true; // After the first grant.
    send({ kind: "reportEnd", requestId: "on y" as RequestId, outcome: "succeeded" }, cut);
    expect(state.isPaused).toBe(true);
    send({ kind: "drainNode", name: "x" as NodeName });
    if (isTried) preview(state, { kind: "tick" }, 0);
    const decision = decide(state, { kind: "tick" }, 0);
    expect(violations(state, 0)).toEqual([]);
    return decision;
  });
  const ended = expect.objectContaining({ kind: "holdEnded", why: "node_lost" });
  expect(expected).toMatchObject({ events: expect.arrayContaining([ended]) });
  expect(actual).toEqual(expected);
});

type Int = (min: number, max: number) => number;

const pick = <T>(int: Int, values: readonly T[]): T => values[int(0, values.length - 1)] as T;

function* someWorld(int: Int, discipline: DisciplineName): Generator<Command> {
  const settings = { backfill: pick(int, ["easy", "easy", "opportunistic", "none"] as const) };
  yield { kind: "createPool", name: POOL, discipline, settings };
  for (let i = 0; i < 6; i++) {
    const labels = { zone: pick(int, ["x", "y"]) };
    yield {
      kind: "putNode",
      node: { name: `n${i}` as NodeName, pool: POOL, capacity: { gpu: 4, mcpu: 32 }, labels },
    };
  }
  for (const component of TEAMS) {
    const reserved = int(0, 1) === 0 ? {} : { gpu: int(1, 3) };
    const limit = int(0, 3) === 0 ? { gpu: int(3, 6) } : {};
    yield { kind: "attachPolicy", policy: { pool: POOL, component, priority: int(0, 3), reserved, limit } };
  }
}

function someCommand(int: Int, { requests }: EngineState, step: number): Command {
  const some = (statuses: string[]) =>
    [...requests.values()].filter(({ progress }) => statuses.includes(progress.status));
  const running = some(["allocated", "preempting"]);
  const waiting = some(["queued"]);
  const roll = int(1, 20);
  if (roll <= 11 || running.length === 0) return { kind: "submitRequest", spec: someRequest(int, step) };
  if (roll <= 16) {
    const { spec, progress } = pick(int, running);
    const outcome = progress.allocation?.stop === null ? "succeeded" : "stopped";
    return { kind: "reportEnd", requestId: spec.id, outcome };
  }
  if (roll === 17 && waiting.length > 0)
    return { kind: "cancelRequest", requestId: pick(int, waiting).spec.id };
  if (roll === 18) return { kind: "drainNode", name: `n${int(0, 5)}` as NodeName };
  if (roll === 19) return { kind: "undrainNode", name: `n${int(0, 5)}` as NodeName };
  return { kind: "tick" };
}

function someRequest(int: Int, step: number): RequestSpec {
  return {
    ...PLAIN_REQUEST,
    id: `r${step}` as RequestId,
    component: pick(int, TEAMS),
    resources: pick(int, [{ gpu: 1 }, { gpu: 1, mcpu: 8 }, { gpu: 2, mcpu: 2 }, { gpu: 4 }, { mcpu: 16 }]),
    preemptionClass: int(0, 3) === 0 ? int(0, 9) : 5,
    preemptible: int(0, 7) > 0,
    walltimeMs: int(0, 2) === 0 ? null : int(1, 90) * 60_000,
    constraints: int(0, 4) === 0 ? { zone: pick(int, ["x", "y"]) } : {},
    nodes: int(0, 7) === 0 ? 2 : 1,
  };
}

function diceOf(seed: number): Int {
  let last = seed;
  return (min, max) => {
    last = (Math.imul(last, 1_103_515_245) + 12_345) & 0x7fffffff;
    return min + ((last >>> 8) % (max - min + 1));
  };
}
